#include "dgx/program/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "dgx/core/files.h"
#include "dgx/program/check.h"
#include "json_vectors.h"

using namespace dgx;
using namespace dgx::program;
using kernels::ValueIndex;

namespace {

struct Cut {
  Program program;
  Classes classes;

  explicit Cut(const std::string& name)
      : program(*parse_program(*read_file(DGX_VECTORS "/" + name + ".program.jsonl", kMaxProgramBytes))),
        classes(*classify(program, *batch_samples(program))) {}

  [[nodiscard]] std::vector<ValueIndex> evenly(std::size_t stages) const {
    const auto forward = forward_lines(program, classes);
    std::vector<ValueIndex> out;
    for (std::size_t n = 1; n < stages; ++n) out.push_back(forward[n * forward.size() / stages]);
    return out;
  }
  [[nodiscard]] Stages stages(const PipelineCut& cut) const {
    auto out = stages_of(program, classes, cut);
    if (!out.ok()) FAIL(out.error().message);
    return *std::move(out);
  }
};

const json::Array& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/pipelines.json");
  return *test::member(value, "programs").as_array();
}

std::vector<std::int64_t> numbers(const json::Value& list) {
  std::vector<std::int64_t> out;
  for (const json::Value& each : *list.as_array()) out.push_back(*each.as_int());
  return out;
}

std::vector<std::int64_t> numbers(const std::vector<ValueIndex>& lines) {
  std::vector<std::int64_t> out;
  for (const ValueIndex v : lines) out.push_back(to_number(v));
  return out;
}

/// The root of the tail that stages cut, which does not depend on where the body is cut.
std::string root_of_tail(const Cut& cut) {
  const auto tail = tail_of_stages(cut.program, cut.classes, cut.stages({{}, 1}));
  if (!tail.ok()) FAIL(tail.error().message);
  return program_root({print_program(tail->program)}).hex();
}

void check_pieces(const json::Value& expected, const std::vector<std::vector<ValueIndex>>& found) {
  REQUIRE(expected.as_array()->size() == found.size());
  for (std::size_t n = 0; n < found.size(); ++n)
    CHECK(numbers((*expected.as_array())[n]) == numbers(found[n]));
}

void check_pipeline(const Cut& cut, const json::Value& expected) {
  PipelineCut pipeline{
      {}, *test::member(expected, "parts").as_int(), {}, *test::member(expected, "pipelines").as_int()};
  for (const std::int64_t line : numbers(test::member(expected, "cuts")))
    pipeline.cuts.push_back(static_cast<ValueIndex>(line));
  CAPTURE(pipeline.cuts, pipeline.parts, pipeline.pipelines);
  const Stages stages = cut.stages(pipeline);
  std::vector<std::int64_t> of;
  for (const int stage : stages.of) of.push_back(stage);
  CHECK(numbers(test::member(expected, "of")) == of);
  const json::Array& moves = *test::member(expected, "moves").as_array();
  REQUIRE(moves.size() == stages.moves.size());
  for (std::size_t n = 0; n < moves.size(); ++n) {
    const Move& move = stages.moves[n];
    CHECK(numbers(moves[n]) == std::vector<std::int64_t>{to_number(move.value), move.from, move.to});
  }
  const auto cells = cells_of(stages, pipeline.parts);
  for (std::size_t s = 0; s < stages.stages.size(); ++s) {
    CAPTURE(s);
    const auto of_stage = [&](const char* key) { return (*test::member(expected, key).as_array())[s]; };
    check_pieces(of_stage("pieces"), stages.stages[s].pieces);
    check_pieces(of_stage("early"), stages.stages[s].early);
    CHECK(numbers(of_stage("last")) == numbers(stages.stages[s].last));
    CHECK(numbers(of_stage("shared")) == numbers(stages.stages[s].shared));
    CHECK(numbers(of_stage("sums")) == numbers(stages.stages[s].sums));
    const json::Value listed = of_stage("cells");
    REQUIRE(listed.as_array()->size() == cells[s].size());
    for (std::size_t n = 0; n < cells[s].size(); ++n) {
      const Cell& cell = cells[s][n];
      CHECK(numbers((*listed.as_array())[n]) ==
            std::vector<std::int64_t>{static_cast<std::int64_t>(cell.piece), cell.part});
    }
  }
}

}  // namespace

TEST_CASE("stages, pieces, moves and cells are those that the page gives") {
  for (const json::Value& vector : vectors()) {
    std::string name = *test::member(vector, "program").as_string();
    CAPTURE(name);
    const Cut cut(name.substr(0, name.size() - std::string(".program.jsonl").size()));
    CHECK(numbers(test::member(vector, "forward")) == numbers(forward_lines(cut.program, cut.classes)));
    CHECK(root_of_tail(cut) == *test::member(vector, "tail").as_string());
    for (const json::Value& each : *test::member(vector, "pipelines").as_array()) check_pipeline(cut, each);
  }
}

TEST_CASE("every line is in one piece of its stage, or is free") {
  for (const char* name : {"placement/gpt", "placement/switch", "placement/clipped", "placement/resnet20",
                           "placement/encoder"}) {
    const Cut cut(name);
    for (const std::size_t count : {1U, 2U, 3U, 5U}) {
      CAPTURE(name, count);
      const Stages stages = cut.stages({cut.evenly(count), 1});
      std::set<ValueIndex> seen;
      std::size_t lines = 0;
      for (const Stage& stage : stages.stages) {
        for (const auto* pieces : {&stage.pieces, &stage.early}) {
          for (const auto& piece : *pieces) {
            CHECK_FALSE(piece.empty());
            CHECK(std::ranges::is_sorted(piece));
            seen.insert(piece.begin(), piece.end());
            lines += piece.size();
          }
        }
        seen.insert(stage.last.begin(), stage.last.end());
        lines += stage.last.size();
      }
      CHECK(seen.size() == lines);
      for (const ValueIndex v : cut.program.values.indices()) {
        const bool is_line = cut.program.values[v].kind != kernels::Kind::kInput;
        CHECK(seen.contains(v) == (is_line && stages.of[v] != Stages::kFree));
      }
    }
  }
}

TEST_CASE("a chain of stages takes one part forward and one back in turn") {
  const Cut cut("placement/counting");
  const Stages stages = cut.stages({cut.evenly(2), 4});
  REQUIRE(stages.stages[0].pieces.size() == 2);
  REQUIRE(stages.stages[1].pieces.size() == 1);
  const auto cells = cells_of(stages, 4);
  CHECK(cells[0] == std::vector<Cell>{{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {0, 3}, {1, 2}, {1, 3}});
  CHECK(cells[1] == std::vector<Cell>{{0, 0}, {0, 1}, {0, 2}, {0, 3}});
  CHECK(parts_in_flight(stages.stages[0], cells[0]) == 2);
  CHECK(parts_in_flight(stages.stages[1], cells[1]) == 1);
}

TEST_CASE("stages begin no more parts than follow them, and all cells are taken") {
  const Cut cut("placement/gpt");
  for (const std::size_t count : {2U, 3U, 4U, 6U}) {
    for (const std::int64_t parts : {1, 2, 6}) {
      CAPTURE(count, parts);
      const Stages stages = cut.stages({cut.evenly(count), parts});
      const auto cells = cells_of(stages, parts);
      for (std::size_t s = 0; s < count; ++s) {
        CHECK(cells[s].size() == stages.stages[s].pieces.size() * static_cast<std::size_t>(parts));
        CHECK(parts_in_flight(stages.stages[s], cells[s]) <= parts);
        std::vector<std::int64_t> next(stages.stages[s].pieces.size(), 0);
        for (const Cell& cell : cells[s]) CHECK(cell.part == next[cell.piece]++);
      }
    }
  }
}

TEST_CASE("what is no cut of a pipeline is refused with the line") {
  const Cut cut("placement/normed");
  const auto refusal = [&](const PipelineCut& other) {
    const auto refused = stages_of(cut.program, cut.classes, other);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    return refused.error().message;
  };
  const auto forward = forward_lines(cut.program, cut.classes);
  CHECK(stages_of(cut.program, cut.classes, {{forward[1], forward[2]}, 1}).ok());
  CHECK_THAT(refusal({{ValueIndex(0)}, 1}),
             Catch::StartsWith("a pipeline cannot be cut at line 0 of the program"));
  CHECK_THAT(refusal({{forward[0]}, 1}),
             Catch::StartsWith(fmt::format("a pipeline cannot be cut at line {}", forward[0])));
  CHECK_THAT(refusal({{ValueIndex(70'000)}, 1}), Catch::StartsWith("a pipeline cannot be cut at line 70000"));
  CHECK_THAT(refusal({{forward[2], forward[1]}, 1}), Catch::Contains("is not behind the one before"));
  CHECK_THAT(refusal({{forward[2], forward[2]}, 1}), Catch::Contains("is not behind the one before"));
  CHECK_THAT(refusal({{forward[2]}, 10}), Catch::Contains("in 1 to 9 parts, not in 10"));
  CHECK_THAT(refusal({{forward[2]}, 0}), Catch::Contains("not in 0"));
  CHECK_THAT(refusal({{forward[2]}, 2}), Catch::Contains("needs value") && Catch::Contains("of all samples"));
  CHECK_THAT(refusal({{forward[2]}, 1, {}, 2}), Catch::Contains("cannot go through several pipelines"));
  CHECK_THAT(refusal({{forward[2]}, 1, {}, 10}), Catch::Contains("through 1 to 9 pipelines, not through 10"));
  CHECK_THAT(refusal({{forward[2]}, 1, {}, 0}), Catch::Contains("not through 0"));
  CHECK_THAT(refusal({{forward[2]}, 3, {}, 4}),
             Catch::Contains("through each of 4 pipelines in 1 to 2 parts, not in 3"));
  CHECK_THAT(refusal({std::vector<ValueIndex>(256, forward[1]), 1}), Catch::Contains("256 are the most"));
}
