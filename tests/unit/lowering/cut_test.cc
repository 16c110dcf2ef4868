#include "lower_cut.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <string>

#include "captured_mlp.h"
#include "dgx/core/files.h"
#include "dgx/program/check.h"
#include "dgx/program/stages.h"
#include "in_parts.h"
#include "json_vectors.h"
#include "lowering.h"

using namespace dgx;
using namespace dgx::lowering;
using kernels::ValueIndex;
using program::Program;

namespace {

const json::Array& list(std::string_view key) {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/cut.json");
  return *test::member(value, key).as_array();
}

/// The numbers of a matrix, or of a list.
std::vector<float> floats(const json::Value& value) {
  std::vector<float> out;
  for (const json::Value& item : *value.as_array()) {
    if (item.as_array() == nullptr) {
      out.push_back(item.as_int() ? static_cast<float>(*item.as_int()) : std::stof(*item.as_string()));
      continue;
    }
    std::ranges::copy(floats(item), std::back_inserter(out));
  }
  return out;
}

Tensor tensor_of(const Shape& shape, const std::vector<float>& numbers) {
  Tensor out(DType::kF32, shape);
  REQUIRE(out.as<float>().size() == numbers.size());
  std::ranges::copy(numbers, out.as<float>().begin());
  return out;
}

/// An element of any type, as a float's bits.
std::uint32_t bits_at(const Tensor& tensor, std::size_t n) {
  const float number = tensor.dtype() == DType::kF32   ? tensor.as<float>()[n]
                       : tensor.dtype() == DType::kI64 ? static_cast<float>(tensor.as<std::int64_t>()[n])
                                                       : static_cast<float>(tensor.bytes()[n]);
  return std::bit_cast<std::uint32_t>(number);
}

void require_bits(const Tensor& found, const json::Value& expected) {
  const std::vector<float> numbers = floats(expected);
  REQUIRE(static_cast<std::size_t>(found.count()) == numbers.size());
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    CAPTURE(n, numbers[n]);
    REQUIRE(bits_at(found, n) == std::bit_cast<std::uint32_t>(numbers[n]));
  }
}

program::CutSpec cut_of(const json::Value& vector, const char* forward, const char* backward) {
  program::CutSpec out;
  out.forward = test::integer(vector, forward);
  out.backward = test::integer(vector, backward);
  out.first = test::integer(vector, "first");
  return out;
}

TrainingRecipe recipe_of(const program::CutSpec& cut, std::int64_t batch, std::int64_t samples) {
  TrainingRecipe out;
  out.batch = batch;
  out.samples = samples;
  out.cut = cut;
  out.loss = program::LossKind::kMeanSquaredError;
  out.fields["x"] = {DType::kF32, {1, 8, 8}};
  out.fields["y"] = {DType::kF32, {5}};
  return out;
}

}  // namespace

TEST_CASE("a perceptron with a cut has the lines that were written from the page") {
  for (const json::Value& vector : list("programs")) {
    const program::CutSpec cut = cut_of(vector, "forward", "backward");
    CAPTURE(cut.forward, cut.backward, cut.first);
    test::MlpCapture capture({64, 12, 5}, {12, 1, 8, 8}, program::Activation::kRelu, 1);
    const auto program =
        lower_training_step(capture.training(), recipe_of(cut, 12, test::integer(vector, "samples")));
    if (!program.ok()) FAIL(program.error().message);
    CHECK(static_cast<std::int64_t>(program->values.size()) == test::integer(vector, "lines"));
    INFO(program::print_program(*program));
    CHECK(program_root(*program).hex() == *test::member(vector, "root").as_string());
  }
}

TEST_CASE("a code crosses in the bits that its lines leave it") {
  for (const json::Value& vector : list("programs")) {
    const program::CutSpec cut = cut_of(vector, "forward", "backward");
    CAPTURE(cut.forward, cut.backward);
    test::MlpCapture capture({64, 12, 5}, {12, 1, 8, 8}, program::Activation::kRelu, 1);
    Program program =
        lower_training_step(capture.training(), recipe_of(cut, 12, test::integer(vector, "samples"))).value();
    const program::Classes classes = program::classify(program, 12).value();
    const json::Array& codes = *test::member(vector, "codes").as_array();
    REQUIRE(codes.size() == 2);
    for (const ValueIndex v : program.values.indices()) {
      const bool is_forward = v == static_cast<ValueIndex>(*codes[0].as_int());
      const bool is_code = is_forward || v == static_cast<ValueIndex>(*codes[1].as_int());
      const std::int64_t bits = is_forward ? cut.forward : cut.backward;
      const auto found = program::code_bits(program, classes, v);
      CAPTURE(v, bits);
      REQUIRE(found == (is_code && bits < 8 ? std::optional(static_cast<int>(bits)) : std::nullopt));
      if (is_code) CHECK(program::crossing_bytes(program, classes, v) == (12 * 12 * bits + 7) / 8);
      if (!found) continue;
      // A text that would let a larger number through is no code of these bits.
      for (const std::size_t step : {4U, 5U, 6U, 8U}) {
        for (kernels::Operand& operand : program.values[v].steps[step].operands) {
          if (operand.kind == kernels::Operand::Kind::kAccess) continue;
          const kernels::Operand before = operand;
          operand = operand.kind == kernels::Operand::Kind::kStep
                        ? kernels::Operand::access(1)
                        : kernels::Operand::literal(std::int64_t{255});
          CHECK((operand == before || !program::code_bits(program, classes, v)));
          operand = before;
        }
      }
    }
  }
}

TEST_CASE("a cut sends and keeps the numbers that were computed from the page") {
  constexpr std::int64_t kBatch = 4, kWidth = 7, kSamples = 6;
  for (const json::Value& vector : list("steps")) {
    const program::CutSpec cut = cut_of(vector, "bits", "bits");
    CAPTURE(cut.forward, cut.first);
    CapturedGraph graph;
    graph.tensors.assign(4, {DType::kF32, {kBatch, kWidth}});
    graph.cut = AtenCut{0, 1, 2, 3};
    LoweringState state(graph);
    for (const auto& [id, name] : {std::pair{0, "x"}, std::pair{2, "y"}})
      state.forms[static_cast<std::size_t>(id)] =
          value_form(state.builder.batch(name, DType::kF32, {kBatch, kWidth}), DType::kF32, {kBatch, kWidth});
    const TrainingRecipe recipe = recipe_of(cut, kBatch, kSamples);
    REQUIRE(lower_cut_forward(state, recipe).ok());
    REQUIRE(lower_cut_backward(state, recipe).ok());
    const Program program = state.builder.finish({state.forms[3]->value});

    kernels::ByValue<Tensor> inputs(program.values.size());
    for (const ValueIndex v : program.values.indices()) {
      const kernels::Primitive& line = program.values[v];
      if (line.kind != kernels::Kind::kInput) continue;
      Tensor integers(DType::kI64, line.shape);
      if (line.source.name == "step") integers.as<std::int64_t>()[0] = test::integer(vector, "step");
      const json::Array& batch = *test::member(vector, "batch").as_array();
      for (std::size_t k = 0; line.source.name == "i" && k < batch.size(); ++k)
        integers.as<std::int64_t>()[k] = *batch[k].as_int();
      const char* const key = line.source.name == "x" ? "y" : line.source.name == "y" ? "g" : "before";
      inputs[v] =
          line.dtype == DType::kI64 ? integers : tensor_of(line.shape, floats(test::member(vector, key)));
    }
    const auto found = test::evaluate_whole(program, inputs);
    if (!found.ok()) FAIL(found.error().message);
    const json::Value &forward = test::member(vector, "forward"),
                      &backward = test::member(vector, "backward");
    require_bits((*found)[program.values.last()], test::member(backward, "gradient"));
    for (const ValueIndex v : program.values.indices()) {
      const kernels::Primitive& line = program.values[v];
      if (line.kind == kernels::Kind::kChain) require_bits((*found)[v], test::member(forward, "place"));
      if (line.next && line.source.name != "step") {
        require_bits((*found)[*line.next], test::member(forward, "m"));
        require_bits((*found)[program.values[*line.next].accesses[1].value], test::member(forward, "new"));
      }
      const bool is_of_gradient = line.kind != kernels::Kind::kInput && !line.accesses.empty() &&
                                  program.values[line.accesses.back().value].source.name == "y";
      if (line.dtype == DType::kU8)
        require_bits((*found)[v], test::member(is_of_gradient ? backward : forward, "code"));
      if (line.kind == kernels::Kind::kMax)
        require_bits((*found)[v], test::member(is_of_gradient ? backward : forward, "a"));
    }
  }
}

TEST_CASE("a cut whose messages no program could hold is refused with both numbers") {
  test::MlpCapture capture({64, 12, 5}, {12, 1, 8, 8}, program::Activation::kRelu, 1);
  const auto graph = capture.training();
  const auto refused = lower_training_step(graph, recipe_of({}, 12, std::int64_t{1} << 50));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK_THAT(refused.error().message,
             Catch::Contains("54043195528445952 bytes, at most 8796093022208 allowed"));
  TrainingRecipe plain = recipe_of({}, 12, 40);
  plain.cut.reset();
  // A copy without a recipe that cuts is a copy.
  const auto without = lower_training_step(graph, plain);
  REQUIRE(without.ok());
}
