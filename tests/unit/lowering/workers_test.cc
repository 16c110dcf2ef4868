#include "dgx/lowering/workers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "dgx/program/check.h"
#include "dgx/program/classes.h"
#include "in_parts.h"
#include "json_vectors.h"

using namespace dgx;
using namespace dgx::lowering;
using namespace dgx::program;
using kernels::ValueIndex;

namespace {

const json::Array& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/workers.json");
  return *value.as_array();
}

std::string text(const json::Value& object, std::string_view key) {
  return *test::member(object, key).as_string();
}

Program stored(const std::string& name) {
  const auto source = read_file(DGX_VECTORS "/" + name, kMaxProgramBytes);
  REQUIRE(source.ok());
  auto program = parse_program(*source);
  REQUIRE(program.ok());
  return *std::move(program);
}

Program divided(const Program& program, std::int64_t workers) {
  auto out = divide_among_workers(program, workers);
  if (!out.ok()) FAIL(out.error().message);
  if (const Status status = check_program(*out); !status.ok()) FAIL(status.error().message);
  return *std::move(out);
}

/// The inputs of a program that other one has, too, with the numbers that they have there.
kernels::ByValue<Tensor> inputs_of(const Program& program, const Program& other,
                                   const kernels::ByValue<Tensor>& others) {
  kernels::ByValue<Tensor> out = test::invented_inputs(program, 1);
  for (const ValueIndex v : program.values.indices()) {
    for (const ValueIndex o : other.values.indices()) {
      if (program.values[v].kind == kernels::Kind::kInput && other.values[o].kind == kernels::Kind::kInput &&
          program.values[v].source == other.values[o].source &&
          program.values[v].shape == other.values[o].shape)
        out[v] = others[o];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("folds of stored programs are divided as the page says") {
  for (const json::Value& vector : vectors()) {
    const std::int64_t workers = test::integer(vector, "workers");
    CAPTURE(text(vector, "program"), workers);
    const Program program = divided(stored(text(vector, "program")), workers);
    CHECK(static_cast<std::int64_t>(program.values.size()) == test::integer(vector, "lines"));
    CHECK(program_root(program).hex() == text(vector, "root"));
    const auto classes = classify(program, workers);
    REQUIRE(classes.ok());
    std::string letters;
    for (const SampleClass of : classes->of) letters += letter_of(of);
    CHECK(letters == text(vector, "classes"));
  }
}

TEST_CASE("a step with workers has the numbers of one without, up to rounding, whole and in parts") {
  for (const json::Value& vector : vectors()) {
    const std::int64_t workers = test::integer(vector, "workers");
    // By the definition of each number: what is too large for it is in the tests of exec.
    if (workers == 1 || text(vector, "program").starts_with("tasks/") ||
        text(vector, "program").starts_with("placement/resnet20"))
      continue;
    CAPTURE(text(vector, "program"), workers);
    const Program plain = stored(text(vector, "program")), program = divided(plain, workers);
    const auto plain_inputs = test::invented_inputs(plain, 22);
    const auto inputs = inputs_of(program, plain, plain_inputs);
    const auto expected = test::evaluate_whole(plain, plain_inputs),
               found = test::evaluate_whole(program, inputs);
    REQUIRE(expected.ok());
    REQUIRE(found.ok());
    const auto entries = state_inputs(plain), same = state_inputs(program);
    REQUIRE(entries.size() == same.size());
    for (std::size_t n = 0; n < entries.size(); ++n) {
      const kernels::Primitive& entry = plain.values[entries[n]];
      CAPTURE(entry.source.name);
      REQUIRE(program.values[same[n]].source == entry.source);
      if (!entry.next || entry.dtype != DType::kF32) continue;
      const auto a = (*expected)[*entry.next].as<float>(),
                 b = (*found)[*program.values[same[n]].next].as<float>();
      CHECK(std::ranges::equal(a, b, [](float x, float y) {
        return !std::isfinite(x) || std::abs(x - y) <= 1e-3F * std::max(1.0F, std::abs(x));
      }));
    }
    const auto classes = classify(program, workers);
    REQUIRE(classes.ok());
    const auto in_parts = test::evaluate_in_parts(program, *classes, {0, workers / 2, workers}, inputs);
    if (!in_parts.ok()) FAIL(in_parts.error().message);
    CHECK(to_number(test::first_difference(*found, *in_parts)) == -1);
  }
}

TEST_CASE("workers that do not divide the batch are refused") {
  const Program program = stored("placement/regression.program.jsonl");
  for (const std::int64_t workers : {std::int64_t{0}, std::int64_t{5}, std::int64_t{24}}) {
    const auto refused = divide_among_workers(program, workers);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUsage);
    CHECK_THAT(refused.error().message, Catch::Contains("do not divide a batch of 12"));
  }
}
