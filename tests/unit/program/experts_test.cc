#include "dgx/program/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "dgx/program/check.h"
#include "dgx/program/line.h"
#include "dgx/program/pieces.h"
#include "dgx/program/ranks.h"
#include "drawn_program.h"
#include "in_parts.h"
#include "json_vectors.h"

using namespace dgx;
using namespace dgx::program;
using kernels::ValueIndex;

namespace {

const json::Array& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/experts.json");
  return *test::member(value, "programs").as_array();
}

Program parsed(const std::string& source) {
  auto program = parse_program(source);
  if (!program.ok()) FAIL(program.error().message);
  if (const Status status = check_program(*program); !status.ok()) FAIL(status.error().message);
  return *std::move(program);
}

Program stored(const json::Value& vector) {
  const auto source =
      read_file(DGX_VECTORS "/" + *test::member(vector, "program").as_string(), kMaxProgramBytes);
  REQUIRE(source.ok());
  return parsed(*source);
}

std::vector<std::int64_t> integers(const json::Value& object, std::string_view key) {
  std::vector<std::int64_t> out;
  for (const json::Value& each : *test::member(object, key).as_array()) out.push_back(*each.as_int());
  return out;
}

std::vector<std::int64_t> numbers_of(const kernels::ByValue<int>& items) {
  return std::vector<std::int64_t>(items.begin(), items.end());
}

using PhaseMove = std::pair<std::size_t, HomeMove>;  // behind this phase

std::vector<PhaseMove> moves_of_page(const json::Value& ranks) {
  std::vector<PhaseMove> out;
  for (const json::Value& each : *test::member(ranks, "moves").as_array()) {
    const json::Array& move = *each.as_array();
    out.push_back(
        {static_cast<std::size_t>(*move[0].as_int()), {static_cast<ValueIndex>(*move[1].as_int()), {}}});
    for (const json::Value& home : *move[2].as_array())
      out.back().second.homes.push_back(static_cast<int>(*home.as_int()));
  }
  return out;
}

std::vector<PhaseMove> moves_in(const Program& program, const Classes& classes) {
  const auto waits = waits_of(program, classes);
  std::vector<PhaseMove> out;
  for (const HomeMove& move : moves_of(program, classes)) out.emplace_back(waits[move.value], move);
  std::ranges::stable_sort(out, {}, &PhaseMove::first);
  return out;
}

void check_roots(const json::Value& ranks, const Program& program, const Classes& classes) {
  const auto bounds = integers(ranks, "bounds");
  const json::Array& parts = *test::member(ranks, "parts").as_array();
  const json::Array& tails = *test::member(ranks, "tails").as_array();
  for (std::size_t r = 0; r < parts.size(); ++r) {
    CAPTURE(r);
    const auto local = local_program(program, classes, {bounds[r], bounds[r + 1]}, static_cast<int>(r));
    if (!local.ok()) FAIL(local.error().message);
    CHECK(program_root(print_program(local->program)).hex() == *parts[r].as_string());
    const auto tail = tail_program(program, classes, static_cast<int>(r));
    if (!tail.ok()) FAIL(tail.error().message);
    CHECK(program_root(print_program(tail->program)).hex() == *tails[r].as_string());
  }
}

}  // namespace

TEST_CASE("experts, their homes, and what ranks make without the others' are as the page says") {
  std::size_t found = 0;
  for (const json::Value& vector : vectors()) {
    const Program program = stored(vector);
    CAPTURE(*test::member(vector, "program").as_string());
    const Classes classes = classify(program, test::integer(vector, "slices")).value();
    const Experts experts = find_experts(program, classes);
    CHECK(std::ssize(experts.all) == test::integer(vector, "experts"));
    CHECK(numbers_of(experts.of) == integers(vector, "of"));
    for (const json::Value& ranks : *test::member(vector, "ranks").as_array()) {
      Classes placed = classes;
      REQUIRE(
          place_experts(program, static_cast<int>(integers(ranks, "bounds").size()) - 1, {}, placed).ok());
      CHECK(numbers_of(placed.home) == integers(ranks, "home"));
      std::vector<std::int64_t> given;
      for (const ValueIndex v : given_by_homes(program, placed, {})) given.push_back(to_number(v));
      CHECK(given == integers(ranks, "given"));
      CHECK(moves_in(program, placed) == moves_of_page(ranks));
      const auto waits = waits_of(program, placed);
      CHECK(static_cast<std::int64_t>(*std::ranges::max_element(waits)) + 1 ==
            test::integer(ranks, "phases"));
      check_roots(ranks, program, placed);
    }
    found += experts.all.size();
    if (!experts.all.empty()) continue;
    Classes unchanged = classes;
    const Status refused = place_experts(program, 2, {}, unchanged);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    CHECK(refused.error().message == "the task's model has no experts (dgx-placement(7), EXPERTS)");
    CHECK(unchanged.home.empty());
  }
  CHECK(found > 10);
}

TEST_CASE("a step whose experts are at home has every bit of the whole step") {
  for (const json::Value& vector : vectors()) {
    const json::Array& all = *test::member(vector, "ranks").as_array();
    if (all.empty()) continue;
    const Program program = stored(vector);
    const auto inputs = test::invented_inputs(program, 22);
    const auto whole = test::evaluate_whole(program, inputs);
    REQUIRE(whole.ok());
    for (const json::Value& ranks : all) {
      const auto bounds = integers(ranks, "bounds");
      CAPTURE(*test::member(vector, "program").as_string(), bounds);
      Classes classes = classify(program, test::integer(vector, "slices")).value();
      REQUIRE(place_experts(program, static_cast<int>(bounds.size()) - 1, {}, classes).ok());
      const auto cut = test::evaluate_in_parts(program, classes, bounds, inputs);
      if (!cut.ok()) FAIL(cut.error().message);
      CHECK(to_number(test::first_difference(*whole, *cut)) == -1);
    }
  }
}

TEST_CASE("what is watched is made by every rank, with the entry that it becomes") {
  const json::Value& vector = *std::ranges::find_if(vectors(), [](const json::Value& each) {
    return *test::member(each, "program").as_string() == "experts/two-blocks.program.jsonl";
  });
  const Program program = stored(vector);
  const Classes classes = classify(program, 6).value();
  const Experts before = find_experts(program, classes);
  const auto weight = find_state_input(program, "model/h.1.mlp.experts.0.c_fc.weight");
  REQUIRE(weight);
  REQUIRE(before.of[*weight] != Experts::kNone);
  const std::vector<ValueIndex> watched = {*program.values[*weight].next};
  const Experts after = find_experts(program, classes, watched);
  std::vector<std::string> left;
  for (const ValueIndex v : program.values.indices()) {
    if (before.of[v] == after.of[v]) continue;
    CHECK(after.of[v] == Experts::kNone);
    CHECK_FALSE((classes.body[v] && program.values[v].kind != kernels::Kind::kInput));
    if (program.values[v].kind == kernels::Kind::kInput) left.push_back(program.values[v].source.name);
  }
  CHECK(left == std::vector<std::string>{"model/h.1.mlp.experts.0.c_fc.weight",
                                         "optimizer/momentum/h.1.mlp.experts.0.c_fc.weight"});
  Classes placed = classes;
  REQUIRE(place_experts(program, 2, watched, placed).ok());
  CHECK(given_by_homes(program, placed, watched).size() == 1);  // the gradient
  // An entry itself.
  CHECK(find_experts(program, classes, {*weight}).of == after.of);
}

TEST_CASE("programs of strangers take little time, whatever their branches have in common") {
  // Fans of two, whose branches become two of very many fans, which then read each other's entries.
  const std::string head = R"({"k":"input","next":0,"s":[],"src":"state loss","t":"f32","v":0})"
                           "\n"
                           R"({"k":"input","next":1,"s":[4,4],"src":"state model/a","t":"f32","v":1})"
                           "\n"
                           R"({"k":"input","next":2,"s":[4,4],"src":"state model/b","t":"f32","v":2})"
                           "\n"
                           R"({"k":"input","s":[6,8,4],"src":"batch x","t":"f32","v":3})"
                           "\n"
                           R"({"k":"input","s":[6,4],"src":"batch n","t":"i64","v":4})"
                           "\n";
  Program program = *parse_program(head);
  const auto append = [&](const std::string& line) {
    auto made = parse_line(line, program.values.next());
    if (!made.ok()) FAIL(made.error().message);
    program.values.push_back(*std::move(made));
    return to_number(program.values.last());
  };
  std::vector<int> dispatches[2];
  for (int fan = 0; fan < 9'000; ++fan) {
    const int rows = append(fmt::format(
        R"({{"do":["mul x0 0x1p-1"],"k":"map","s":[6,8,4],"t":"f32","v":{},"x":["3[i0,i1,i2]"]}})",
        program.values.size()));
    for (const int half : {0, 1}) {
      dispatches[half].push_back(append(
          fmt::format(R"({{"k":"map","s":[6,2,4],"t":"f32","v":{},"x":["{}[i0,$1,i2]?0x0p0","4[i0,i1{}]"]}})",
                      program.values.size(), rows, half == 0 ? "" : "+2")));
    }
  }
  for (const int half : {0, 1}) {
    for (const int dispatch : dispatches[half])
      append(fmt::format(
          R"({{"f":[4],"k":"dot","s":[6,2,4],"t":"f32","v":{},"x":["{}[i0,i1,k0]","{}[k0,i2]"]}})",
          program.values.size(), dispatch, 1 + half));
  }
  std::string others;
  for (int n = 1; n < 64; ++n) others += R"(,"2[i2,i2]")";
  while (program.values.size() < 60'000) {
    append(fmt::format(R"({{"k":"map","s":[6,2,4],"t":"f32","v":{},"x":["{}[i0,i1,i2]"{}]}})",
                       program.values.size(), dispatches[0].back(), others));
  }
  const auto begin = std::chrono::steady_clock::now();
  Classes classes = classify(program, 6).value();
  const Experts experts = find_experts(program, classes);
  CHECK(experts.all.size() == 2);
  REQUIRE(place_experts(program, 4, {}, classes).ok());
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took < std::chrono::seconds(20));
}

TEST_CASE("drawn programs have every bit of the whole step, wherever their experts are") {
  std::size_t experts = 0, entries = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Program program = parsed(test::DrawnProgram(seed).text());
    const Classes classes = classify(program, 6).value();
    const auto inputs = test::invented_inputs(program, seed);
    const auto whole = test::evaluate_whole(program, inputs);
    REQUIRE(whole.ok());
    for (const std::vector<std::int64_t>& bounds :
         {std::vector<std::int64_t>{0, 6}, {0, 1, 6}, {0, 2, 3, 6}, {0, 1, 2, 3, 4, 6}}) {
      CAPTURE(seed, bounds);
      Classes placed = classes;
      if (!place_experts(program, static_cast<int>(bounds.size()) - 1, {}, placed).ok()) break;
      const auto cut = test::evaluate_in_parts(program, placed, bounds, inputs);
      if (!cut.ok()) FAIL(cut.error().message);
      REQUIRE(to_number(test::first_difference(*whole, *cut)) == -1);
    }
    const Experts found = find_experts(program, classes);
    experts += found.all.size();
    for (const ValueIndex v : state_inputs(program)) entries += found.of[v] != Experts::kNone;
  }
  CHECK(experts > 100);
  CHECK(entries > 10);
}
