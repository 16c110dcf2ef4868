#include "dgx/program/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/program/check.h"
#include "dgx/program/line.h"
#include "in_parts.h"
#include "json_vectors.h"

using namespace dgx;
using namespace dgx::program;
using kernels::ValueIndex;

namespace {

const json::Array& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/placement.json");
  return *test::member(value, "programs").as_array();
}

std::string text(const json::Value& object, std::string_view key) {
  return *test::member(object, key).as_string();
}

Program parsed(const std::string& source) {
  auto program = parse_program(source);
  if (!program.ok()) FAIL(program.error().message);
  return *std::move(program);
}

Program stored(const json::Value& vector) {
  const auto source = read_file(DGX_VECTORS "/" + text(vector, "program"), kMaxProgramBytes);
  REQUIRE(source.ok());
  Program program = parsed(*source);
  if (const Status status = check_program(program); !status.ok()) FAIL(status.error().message);
  return program;
}

Classes classed(const Program& program, std::int64_t slices) {
  auto classes = classify(program, slices);
  if (!classes.ok()) FAIL(classes.error().message);
  return *std::move(classes);
}

std::vector<std::int64_t> bounds_of(const json::Value& part) {
  std::vector<std::int64_t> bounds;
  for (const json::Value& bound : *test::member(part, "bounds").as_array()) bounds.push_back(*bound.as_int());
  return bounds;
}

std::string root_of(const Result<Piece>& piece) {
  if (!piece.ok()) FAIL(piece.error().message);
  CHECK(check_program(piece->program, ProgramRole::kPiece).ok());
  const std::string source = print_program(piece->program);
  CHECK(parsed(source) == piece->program);
  CHECK(piece->origins.size() == piece->program.values.size());
  return program_root(source).hex();
}

std::vector<ValueIndex> numbers(const json::Value& object, std::string_view key) {
  std::vector<ValueIndex> out;
  for (const json::Value& number : *test::member(object, key).as_array())
    out.push_back(ValueIndex(*number.as_int()));
  return out;
}

/// Checks the roots of the local programs of all `parts`.
void check_parts(const json::Value& vector, const Program& program, const Classes& classes) {
  for (const json::Value& part : *test::member(vector, "parts").as_array()) {
    const auto bounds = bounds_of(part);
    const json::Array& roots = *test::member(part, "roots").as_array();
    REQUIRE(roots.size() + 1 == bounds.size());
    for (std::size_t q = 0; q < roots.size(); ++q) {
      CAPTURE(bounds[q], bounds[q + 1]);
      CHECK(root_of(local_program(program, classes, {bounds[q], bounds[q + 1]})) == *roots[q].as_string());
    }
  }
}

/// A step with a batch of `samples` and one more line, number 4.
Program step_with(const std::string& line, int samples = 4) {
  return parsed(fmt::format(R"({{"k":"input","next":0,"s":[],"src":"state loss","t":"f32","v":0}})"
                            "\n"
                            R"({{"k":"input","next":3,"s":[],"src":"state step","t":"i64","v":1}})"
                            "\n"
                            R"({{"k":"input","s":[{},6],"src":"batch x","t":"f32","v":2}})"
                            "\n"
                            R"({{"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":3,"x":["1[]"]}})"
                            "\n",
                            samples) +
                line + "\n");
}

}  // namespace

TEST_CASE("stored programs have the classes, bodies and gathers that the page gives") {
  for (const json::Value& vector : vectors()) {
    CAPTURE(text(vector, "program"));
    const Program program = stored(vector);
    const Classes classes = classed(program, test::integer(vector, "slices"));
    std::string letters, body;
    for (const ValueIndex v : program.values.indices()) {
      letters += letter_of(classes.of[v]);
      body += classes.body[v] ? '1' : '0';
    }
    CHECK(letters == text(vector, "classes"));
    CHECK(body == text(vector, "body"));
    std::vector<Gather> gathers;
    for (const json::Value& pair : *test::member(vector, "gathers").as_array()) {
      const json::Array& two = *pair.as_array();
      gathers.push_back({ValueIndex(*two[0].as_int()), ValueIndex(*two[1].as_int())});
    }
    CHECK(classes.gathers == gathers);
  }
}

TEST_CASE("local programs and tails are the page's texts, and checked pieces") {
  for (const json::Value& vector : vectors()) {
    CAPTURE(text(vector, "program"));
    const Program program = stored(vector);
    const Classes classes = classed(program, test::integer(vector, "slices"));
    check_parts(vector, program, classes);
    CHECK(root_of(tail_program(program, classes)) == text(vector, "tail"));
    const std::string head = text(vector, "head");
    const bool obstacle = head == "state";
    REQUIRE(first_obstacle(program, classes).has_value() == obstacle);
    const auto found = head_program(program, classes);
    if (obstacle) {
      CHECK(found.error().code == ErrorCode::kInternal);
    } else if (head == "none") {
      CHECK(found->program.values.empty());
    } else {
      CHECK(root_of(found) == head);
    }
  }
}

TEST_CASE("entries are divided, and lines sparse, where the page says so") {
  for (const json::Value& vector : vectors()) {
    CAPTURE(text(vector, "program"));
    const Program program = stored(vector);
    Classes classes = classed(program, test::integer(vector, "slices"));
    const bool has_some = vector.as_object()->contains("on_ranks");
    const std::vector<ValueIndex> divided = divided_entries(program, classes);
    CHECK(sparse_lines(program, classes, divided) == numbers(vector, "sparse"));
    CHECK(divided.empty() != has_some);
    if (!has_some) continue;
    const json::Value& on_ranks = test::member(vector, "on_ranks");
    CHECK(divided == numbers(on_ranks, "divided"));
    CHECK(divided_entries(program, classes, {*program.values[divided.front()].next}) ==
          std::vector(divided.begin() + 1, divided.end()));
    for (const ValueIndex v : divided) classes.of[v] = SampleClass::kSharded;
    check_parts(on_ranks, program, classes);
    CHECK(root_of(tail_program(program, classes)) == text(on_ranks, "tail"));
  }
}

TEST_CASE("a step in two, three and five unequal parts has every bit of the whole step") {
  for (const json::Value& vector : vectors()) {
    const Program program = stored(vector);
    const Classes classes = classed(program, test::integer(vector, "slices"));
    const auto inputs = test::invented_inputs(program, 22);
    const auto whole = test::evaluate_whole(program, inputs);
    REQUIRE(whole.ok());
    for (const json::Value& part : *test::member(vector, "parts").as_array()) {
      CAPTURE(text(vector, "program"), bounds_of(part));
      const auto cut = test::evaluate_in_parts(program, classes, bounds_of(part), inputs);
      if (!cut.ok()) FAIL(cut.error().message);
      CHECK(to_number(test::first_difference(*whole, *cut)) == -1);
    }
  }
}

TEST_CASE("a part that computed other slices would be noticed") {
  const json::Value& vector = *std::ranges::find_if(vectors(), [](const json::Value& each) {
    return text(each, "program") == "placement/corners.program.jsonl";
  });
  const Program program = stored(vector);
  auto inputs = test::invented_inputs(program, 22);
  const auto whole = test::evaluate_whole(program, inputs);
  for (const ValueIndex v : program.values.indices()) {
    if (program.values[v].source.kind == kernels::Source::Kind::kBatch &&
        program.values[v].dtype == DType::kF32)
      inputs[v].as<float>().back() += 1;
  }
  const auto cut = test::evaluate_in_parts(program, classed(program, 6), {0, 2, 6}, inputs);
  REQUIRE(cut.ok());
  CHECK(to_number(test::first_difference(*whole, *cut)) > 0);
}

TEST_CASE("only slices that divide the batch cut it") {
  const Program program = step_with(R"({"k":"map","s":[4,6],"t":"f32","v":4,"x":["2[i0,i1]"]})");
  CHECK(*batch_samples(program) == 4);
  for (const std::int64_t slices : {1, 2, 4}) CHECK(classify(program, slices).ok());
  for (const std::int64_t slices : {-1, 0, 3, 8}) {
    const auto refused = classify(program, slices);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    CHECK_THAT(refused.error().message, Catch::Contains("4 samples"));
  }
  const Program without = parsed(R"({"k":"input","next":0,"s":[],"src":"state loss","t":"f32","v":0})"
                                 "\n");
  CHECK_THAT(classify(without, 1).error().message, Catch::Contains("reads no batch"));
  CHECK(classify(without, 1).error().code == ErrorCode::kUsage);
  const Program differing = step_with(R"({"k":"input","s":[5],"src":"batch y","t":"i64","v":4})");
  CHECK_THAT(classify(differing, 1).error().message, Catch::Contains("line 4 of the program"));
  CHECK(classify(differing, 1).error().code == ErrorCode::kUsage);
}

TEST_CASE("what cannot be cut is refused by its line") {
  const Program whole = step_with(R"({"f":[4],"k":"max","s":[6],"t":"f32","v":4,"x":["2[k0,i0]"]})");
  const Classes classes = classed(whole, 4);
  CHECK_THAT(local_program(whole, classes, {0, 4}).error().message, Catch::Contains("no line can be cut"));
  CHECK(local_program(whole, classes, {0, 4}).error().code == ErrorCode::kUsage);
  CHECK(tail_program(whole, classes).ok());

  std::string steps = R"("f32 i0")";
  for (int n = 1; n < 64; ++n) steps += fmt::format(R"(,"add t{} x0")", n - 1);
  const Program long_list =
      step_with(R"({"do":[)" + steps + R"(],"k":"map","s":[4,6],"t":"f32","v":4,"x":["2[i0,i1]"]})");
  REQUIRE(check_program(long_list).ok());
  const Classes found = classed(long_list, 4);
  CHECK(local_program(long_list, found, {0, 1}).ok());
  const auto refused = local_program(long_list, found, {1, 2});
  REQUIRE(!refused.ok());
  CHECK(refused.error().message ==
        "line 4 of the program cannot be cut, since it would have more than 64 steps in a part");
  CHECK(refused.error().code == ErrorCode::kUsage);
  for (const SliceRange part : {SliceRange{-1, 2}, {2, 2}, {3, 5}})
    CHECK(local_program(long_list, found, part).error().code == ErrorCode::kInternal);
}

TEST_CASE("a chain whose iteration is written without sizes goes on at its carry") {
  Program program = step_with(R"({"do":["neg x0"],"k":"map","s":[4,6],"t":"f32","v":4,"x":["2[i0,i1]"]})");
  const auto chain = parse_line(
      R"({"do":["add acc x0"],"f":[4,6],"i":[],"init":"0x0p0","k":"chain","s":[1,1],"t":"f32","v":5,"x":["4[k0,k1]"]})",
      ValueIndex{5});
  REQUIRE(chain.ok());
  program.values.push_back(*chain);
  const Classes classes = classed(program, 4);
  REQUIRE(classes.of[ValueIndex{5}] == SampleClass::kCarried);
  const auto piece = local_program(program, classes, {1, 3});
  REQUIRE(piece.ok());
  const std::string source = print_program(piece->program);
  CHECK_THAT(source, Catch::Contains(R"("init":"x1")") && Catch::Contains(R"([k0,k1]","2[0,0]"])"));
  root_of(piece);
}

TEST_CASE("a part of too many lines is refused by their number") {
  // Each dot has its carry before it.
  Program program = step_with(R"({"do":["neg x0"],"k":"map","s":[4,6],"t":"f32","v":4,"x":["2[i0,i1]"]})");
  const auto dot =
      parse_line(R"({"f":[4],"k":"dot","s":[],"t":"f32","v":5,"x":["4[k0,0]","4[k0,1]"]})", ValueIndex{5});
  REQUIRE(dot.ok());
  while (program.values.size() < 40'000) program.values.push_back(*dot);
  const auto refused = local_program(program, classed(program, 4), {0, 2});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK_THAT(refused.error().message,
             Catch::Matches("line 3277[0-9] of the program cannot be cut, since the "
                            "part has 65536 lines before it, the most that it may have"));
}

TEST_CASE("only pieces have values of another program, and need no step") {
  const auto source = [](const std::string& name) {
    return R"({"k":"input","s":[3],"src":"state )" + name + R"(","t":"f32","v":0})" + "\n";
  };
  for (const char* name : {"value/0", "carry/65535", "model/w"}) {
    CHECK(check_program(parsed(source(name)), ProgramRole::kPiece).ok());
    CHECK(!check_program(parsed(source(name)), ProgramRole::kTraining).ok());
  }
  for (const char* name : {"value/", "value/01", "value/-1", "carry/65536", "value/1/2", "values/1"})
    CHECK(!check_program(parsed(source(name)), ProgramRole::kPiece).ok());
  CHECK(!check_program(parsed(source("value/1")), ProgramRole::kEvaluation).ok());
  const Program twice =
      parsed(source("value/1") + R"({"k":"input","s":[3],"src":"state value/1","t":"f32","v":1})"
                                 "\n");
  CHECK_THAT(check_program(twice, ProgramRole::kPiece).error().message, Catch::Contains("a second"));
}
