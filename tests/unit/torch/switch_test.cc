// The routing of the built-in model `switch`: its program against vectors made without dgx.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "captured_text.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/initial.h"
#include "json_vectors.h"
#include "run_program.h"

namespace dgx::test {
namespace {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;

constexpr std::int64_t kWidth = 4;

template <class T>
T must(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result).value();
}

/// The step program of a model of one block whose experts take samples of so many tokens.
program::Program switch_program(const std::string& fields, std::int64_t batch, std::int64_t tokens) {
  static lowering::CaptureBackend* const backend = open_capture_backend(DGX_TORCH_MODULE);
  REQUIRE(backend != nullptr);
  lowering::CaptureRequest request;
  request.model =
      "switch:layers=1,every=1,width=4,heads=2,vocab=5,context=" + std::to_string(tokens) + fields;
  request.fields = {{"x", {batch, tokens}, DType::kI64}};
  lowering::TrainingRecipe recipe;
  recipe.fields["x"] = {DType::kI64, {tokens}};
  recipe.fields["y"] = {DType::kI64, {tokens}};
  recipe.batch = batch;
  recipe.optimizer = must(program::parse_optimizer_spec("sgd:lr=0.1"));
  return must(lowering::lower_training_step(must(backend->capture(request)), recipe));
}

std::string experts_of(const json::Value& vector) {
  return ",experts=" + std::to_string(integer(vector, "experts")) +
         ",capacity=" + *member(vector, "capacity").as_string();
}

std::vector<std::int64_t> integers(const json::Value& list) {
  std::vector<std::int64_t> out;
  for (const json::Value& item : *list.as_array()) out.push_back(*item.as_int());
  return out;
}

/// A key of all samples of a case, one after another.
std::vector<std::int64_t> all(const json::Value& vector, std::string_view key) {
  std::vector<std::int64_t> out;
  for (const json::Value& sample : *member(vector, "samples").as_array()) {
    const auto part = integers(member(sample, key));
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

std::vector<float> probabilities(const json::Value& vector) {
  std::vector<float> out;
  for (const json::Value& sample : *member(vector, "samples").as_array()) {
    for (const json::Value& token : *member(sample, "probabilities").as_array()) {
      for (const std::int64_t number : integers(token)) out.push_back(static_cast<float>(number));
    }
  }
  return out;
}

std::vector<std::int64_t> integers(const Tensor& tensor) {
  return {tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end()};
}

/// The lines of the routing, by what they give.
struct Routing {
  ValueIndex probabilities, chosen, places, slots, tokens;
};

/// The first line from `from` that passes.
template <class Test>
ValueIndex find_line(const program::Program& program, ValueIndex from, const Test& test) {
  for (const ValueIndex v : program.values.indices(from)) {
    if (test(program.values[v])) return v;
  }
  FAIL("the program has no such line");
  return from;
}

Routing routing_of(const program::Program& program, const Shape& tokens) {
  Routing out;
  out.chosen = find_line(program, ValueIndex(0), [&](const Primitive& line) {
    return line.kind == Kind::kArgmax && line.shape == tokens;
  });
  out.probabilities = program.values[out.chosen].accesses[0].value;
  // A map, [batch, 1, 1], if samples have one token.
  out.places = find_line(program, ValueIndex(to_number(out.chosen) + 1), [&](const Primitive& line) {
    return line.dtype == DType::kI64 && *element_count(line.shape) == *element_count(tokens);
  });
  out.tokens = find_line(program, out.places, [&](const Primitive& line) {
    return line.kind == Kind::kChain && line.dtype == DType::kI64;
  });
  out.slots = program.values[out.tokens].accesses[1].value;
  REQUIRE(program.values[out.slots].shape == tokens);
  return out;
}

/// Every value of a step in which the probabilities are the vector's.
kernels::ByValue<Tensor> routed(const program::Program& program, const Routing& routing,
                                const json::Value& vector, const Shape& tokens) {
  StepInputs inputs{Tensor(DType::kI64, tokens), Tensor(DType::kI64, tokens),
                    must(program::schedule_parameters({}, {}, 100)), 0, 5};
  for (std::size_t n = 0; n < inputs.x.as<std::int64_t>().size(); ++n)
    inputs.x.as<std::int64_t>()[n] = static_cast<std::int64_t>(n * 7 % 5);
  program::Program given = program;
  Primitive& line = given.values[routing.probabilities];
  line = {};
  line.kind = Kind::kInput;
  line.shape = program.values[routing.probabilities].shape;
  line.source.name = "model/probabilities";
  State state = must(program::initial_state(program, 3, program::ModelKind::kSwitch));
  state.push_back({line.source.name, Tensor(DType::kF32, line.shape)});
  std::ranges::copy(probabilities(vector), state.back().tensor.as<float>().begin());
  std::ranges::sort(state, {}, &Entry::name);
  return run_program(given, state, inputs);
}

/// The rows that experts take: each is the token's, or zeros.
void check_rows(const program::Program& program, const Routing& routing,
                const kernels::ByValue<Tensor>& values, std::int64_t experts, std::int64_t slots) {
  const std::int64_t batch = program.values[routing.chosen].shape[0],
                     length = program.values[routing.chosen].shape[1];
  const auto tokens = integers(values[routing.tokens]);
  ValueIndex from = routing.tokens;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    from = find_line(program, ValueIndex(to_number(from) + 1), [&](const Primitive& line) {
      return line.kind == Kind::kMap && line.shape == Shape{batch, slots, kWidth} &&
             line.accesses.size() == 2 && line.steps.empty();
    });
    const Tensor& table = values[program.values[from].accesses[0].value];
    REQUIRE(table.shape() == Shape{batch, length + 1, kWidth});
    for (std::int64_t row = 0; row < batch * slots; ++row) {
      const std::int64_t sample = row / slots;
      const auto token =
          tokens[static_cast<std::size_t>(sample * (experts * slots + 1) + expert * slots + row % slots)];
      for (std::int64_t n = 0; n < kWidth; ++n) {
        const float found = values[from].as<float>()[static_cast<std::size_t>(row * kWidth + n)];
        const auto at = static_cast<std::size_t>((sample * (length + 1) + token) * kWidth + n);
        REQUIRE(found == table.as<float>()[at]);
        if (token == length) REQUIRE(found == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("tokens go to experts and slots as the page says, and no token to two") {
  const json::Value vectors = read_vectors(DGX_VECTORS "/switch.json");
  for (const json::Value& vector : *member(vectors, "cases").as_array()) {
    CAPTURE(*member(vector, "name").as_string());
    const json::Array& samples = *member(vector, "samples").as_array();
    const Shape tokens = {static_cast<std::int64_t>(samples.size()),
                          static_cast<std::int64_t>(member(samples[0], "chosen").as_array()->size())};
    const auto program = switch_program(experts_of(vector), tokens[0], tokens[1]);
    const Routing routing = routing_of(program, tokens);
    const auto values = routed(program, routing, vector, tokens);
    CHECK(integers(values[routing.chosen]) == all(vector, "chosen"));
    CHECK(integers(values[routing.places]) == all(vector, "places"));
    CHECK(integers(values[routing.slots]) == all(vector, "slots"));
    const std::int64_t experts = integer(vector, "experts"), slots = integer(vector, "slots");
    // Behind the slots of a sample is one for tokens without a slot.
    std::vector<std::int64_t> owners, others;
    const auto found = integers(values[routing.tokens]);
    for (std::size_t n = 0; n < found.size(); ++n) {
      const bool is_last = static_cast<std::int64_t>(n) % (experts * slots + 1) == experts * slots;
      (is_last ? others : owners).push_back(found[n]);
    }
    CHECK(owners == all(vector, "tokens"));
    CHECK(others == std::vector<std::int64_t>(samples.size(), tokens[1]));
    check_rows(program, routing, values, experts, slots);
  }
}

TEST_CASE("an expert has the slots that the page says") {
  const json::Value vectors = read_vectors(DGX_VECTORS "/switch.json");
  for (const json::Value& vector : *member(vectors, "slots").as_array()) {
    if (integer(vector, "tokens") > 256 || integer(vector, "experts") > 100) continue;
    CAPTURE(integer(vector, "tokens"), integer(vector, "experts"));
    const Shape tokens = {1, integer(vector, "tokens")};
    const auto program = switch_program(experts_of(vector), 1, tokens[1]);
    const Routing routing = routing_of(program, tokens);
    CHECK(program.values[routing.tokens].shape ==
          Shape{1, integer(vector, "experts") * integer(vector, "slots") + 1});
  }
}

TEST_CASE("what unevenness costs is in the loss, and nothing of it with balance 0") {
  const auto lines = [](const program::Program& program) {
    return std::ranges::count_if(program.values, [](const Primitive& line) {
      return line.kind == Kind::kMap && line.shape.empty() && line.provenance == "loss";
    });
  };
  const auto with = switch_program(",balance=0.5", 2, 6), without = switch_program(",balance=0", 2, 6);
  CHECK(lines(with) == 1);
  CHECK(lines(without) == 0);
  CHECK(without.values.size() < with.values.size());
}

}  // namespace dgx::test
