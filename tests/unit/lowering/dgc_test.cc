#include "lower_dgc.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>

#include "captured_mlp.h"
#include "dgx/program/check.h"
#include "dgx/program/initial.h"
#include "dgx/program/line.h"
#include "in_parts.h"
#include "json_vectors.h"
#include "lower_optimizer.h"
#include "run_program.h"
#include "worker_gradients.h"

using namespace dgx;
using namespace dgx::lowering;
using kernels::ValueIndex;
using program::Program;

namespace {

const json::Value& vectors() {
  static const json::Value value = test::read_vectors(DGX_VECTORS "/dgc.json");
  return value;
}

const json::Array& list(std::string_view key) { return *test::member(vectors(), key).as_array(); }

std::string text(const json::Value& object, std::string_view key) {
  return *test::member(object, key).as_string();
}

std::vector<std::int64_t> integers(const json::Value& object, std::string_view key) {
  std::vector<std::int64_t> out;
  for (const json::Value& item : *test::member(object, key).as_array()) out.push_back(*item.as_int());
  return out;
}

std::vector<float> floats(const json::Value& object, std::string_view key) {
  std::vector<float> out;
  for (const json::Value& item : *test::member(object, key).as_array())
    out.push_back(std::stof(*item.as_string()));
  return out;
}

Tensor tensor_of(const Shape& shape, const std::vector<float>& numbers) {
  Tensor out(DType::kF32, shape);
  REQUIRE(out.as<float>().size() == numbers.size());
  std::ranges::copy(numbers, out.as<float>().begin());
  return out;
}

void require_bits(const Tensor& found, const std::vector<float>& expected) {
  REQUIRE(found.as<float>().size() == expected.size());
  for (std::size_t n = 0; n < expected.size(); ++n) {
    CAPTURE(n, found.as<float>()[n], expected[n]);
    REQUIRE(std::bit_cast<std::uint32_t>(found.as<float>()[n]) == std::bit_cast<std::uint32_t>(expected[n]));
  }
}

program::OptimizerSpec spec_of(const std::string& text) {
  auto spec = program::parse_optimizer_spec(text);
  REQUIRE(spec.ok());
  return *spec;
}

Program stored(const std::string& name) {
  const auto source = read_file(DGX_VECTORS "/" + name, program::kMaxProgramBytes);
  REQUIRE(source.ok());
  auto parsed = program::parse_program(*source);
  REQUIRE(parsed.ok());
  return *std::move(parsed);
}

Builder builder_of(const Program& program) {
  Builder out;
  for (kernels::Primitive line : program.values) {
    line.next.reset();
    out.append(std::move(line));
  }
  REQUIRE(out.values().size() == program.values.size());
  return out;
}

TrainingRecipe recipe_for(std::int64_t batch, const char* optimizer, std::int64_t workers) {
  TrainingRecipe recipe;
  recipe.fields["x"] = {DType::kF32, {6}};
  recipe.fields["y"] = {DType::kU8, {}};
  recipe.batch = batch;
  recipe.optimizer = spec_of(optimizer);
  recipe.update.workers = workers;
  return recipe;
}

}  // namespace

TEST_CASE("a sample and what is wanted of it are the page's") {
  for (const json::Value& vector : list("samples")) {
    const DgcSample expected{test::integer(vector, "stride"), test::integer(vector, "count")};
    CAPTURE(test::integer(vector, "elements"));
    CHECK(dgc_sample(test::integer(vector, "elements")) == expected);
  }
  for (const json::Value& vector : list("wanted")) {
    program::OptimizerSpec spec = spec_of("dgc");
    spec.density = std::stod(text(vector, "density"));
    CHECK(dgc_wanted(spec, test::integer(vector, "count")) == integers(vector, "wanted"));
  }
}

TEST_CASE("updates are the page's, bit for bit") {
  for (const json::Value& vector : list("updates")) {
    CAPTURE(text(vector, "optimizer"), test::integer(vector, "step"));
    const program::OptimizerSpec spec = spec_of(text(vector, "optimizer"));
    const Shape shape = integers(vector, "shape");
    Shape rows = shape;
    rows.insert(rows.begin(), test::integer(vector, "workers"));
    const json::Value &given = test::member(vector, "given"), &next = test::member(vector, "next");

    Builder builder;
    State state;
    const auto entry = [&](const std::string& name) {
      state.push_back({"optimizer/" + name, tensor_of(rows, floats(given, name))});
      return form_at(builder, builder.state("optimizer/" + name, DType::kF32, rows));
    };
    const TensorForm gradient = entry("gradient"), residual = entry("residual");
    const TensorForm velocity = spec.momentum != 0 ? entry("velocity") : residual;
    const DgcStep step = lower_dgc(builder, spec, "p", gradient, velocity, residual);
    state.push_back({"step", Tensor(DType::kI64, {})});
    state.back().tensor.as<std::int64_t>()[0] = test::integer(vector, "step");
    std::vector<ValueIndex> outputs = {step.residual.value, step.update.value};
    if (spec.momentum != 0) outputs.push_back(step.velocity.value);

    const Program program = builder.finish(outputs);
    const auto values = test::run_program(program, state, {});
    const auto output = [&](std::size_t n) { return values[ValueIndex(values.size() - outputs.size() + n)]; };
    require_bits(output(0), floats(next, "residual"));
    require_bits(output(1), floats(vector, "update"));
    CHECK(output(1).shape() == shape);
    if (spec.momentum != 0) require_bits(output(2), floats(next, "velocity"));
  }
}

TEST_CASE("counts are floats where these are exact, integers beyond") {
  for (const auto& [elements, type] : {std::pair{(std::int64_t{100} << 24) - 99, DType::kF32},
                                       std::pair{(std::int64_t{100} << 24) + 1, DType::kI64}}) {
    CAPTURE(elements, dgc_sample(elements).count);
    Builder builder;
    const TensorForm rows = form_at(builder, builder.state("optimizer/g", DType::kF32, {2, elements}));
    (void)lower_dgc(builder, spec_of("dgc:momentum=0"), "p", rows, rows, rows);
    int sums = 0;
    for (const kernels::Primitive& line : builder.values()) {
      if (line.kind != kernels::Kind::kSum) continue;
      ++sums;
      CHECK(line.dtype == type);
    }
    CHECK(sums == 4);
  }
}

TEST_CASE("rows of gradients of stored programs are the page's, or are refused") {
  for (const json::Value& vector : list("rows")) {
    const std::int64_t workers = test::integer(vector, "workers");
    CAPTURE(text(vector, "program"), workers);
    const Program program = stored(text(vector, "program"));
    const std::int64_t samples = *program::batch_samples(program);
    Builder all = builder_of(program);
    WorkerGradients gradients(all, samples, workers);
    std::string having;
    for (const ValueIndex v : program.values.indices())
      having += gradients.of("p", form_at(all, v)).ok() ? 'x' : '-';
    std::string expected = text(vector, "having");
    std::ranges::replace_if(
        expected, [](char c) { return c != '-'; }, 'x');
    CHECK(having == expected);
    for (const auto& [name, gradient] : *test::member(vector, "gradients").as_object()) {
      CAPTURE(name);
      Builder builder = builder_of(program);
      const auto rows = WorkerGradients(builder, samples, workers)
                            .of(name, form_at(builder, ValueIndex(test::integer(gradient, "value"))));
      const bool has_rows = gradient.as_object()->contains("root");
      REQUIRE(rows.ok() == has_rows);
      if (!has_rows) {
        CHECK(rows.error().code == ErrorCode::kUsage);
        CHECK_THAT(rows.error().message, Catch::Contains("the gradient of " + name));
        continue;
      }
      Program made;
      for (std::size_t n = program.values.size(); n < builder.values().size(); ++n) {
        made.values.push_back(builder.values()[ValueIndex(n)]);
        made.values.back().provenance.clear();
      }
      std::string lines;
      for (const ValueIndex v : made.values.indices()) {
        const auto number = ValueIndex(program.values.size() + static_cast<std::size_t>(v));
        lines += program::print_line(made.values[v], number) + "\n";
      }
      CHECK(program::program_root(lines).hex() == text(gradient, "root"));
    }
  }
}

TEST_CASE("a step of the lowered perceptron sends little and loses nothing, whole and in parts") {
  for (const char* optimizer : {"dgc:lr=0.1,density=0.1,warmup=4", "dgc:lr=0.1,density=0.1,bits=8,clip=0.1",
                                "dgc:lr=0.1,momentum=0,density=0.2,weight-decay=0.1"}) {
    for (const std::int64_t workers : {1, 2, 4}) {
      CAPTURE(optimizer, workers);
      const auto program =
          lower_training_step(test::captured_mlp({6, 5, 3}, 8), recipe_for(8, optimizer, workers));
      if (!program.ok()) FAIL(program.error().message);
      const auto inputs = test::invented_inputs(*program, 3);
      const auto values = test::evaluate_whole(*program, inputs);
      REQUIRE(values.ok());
      for (const ValueIndex v : program->values.indices()) {
        const kernels::Primitive& line = program->values[v];
        const bool is_residual =
            line.kind == kernels::Kind::kInput && line.source.name.starts_with("optimizer/residual/");
        if (!is_residual) continue;
        CAPTURE(line.source.name);
        CHECK(line.shape.front() == workers);
        // The line that becomes the entry is v' - s.
        const kernels::Primitive& next = program->values[*line.next];
        REQUIRE(next.accesses.size() == 2);
        const auto whole = (*values)[next.accesses[0].value].as<float>(),
                   sent = (*values)[next.accesses[1].value].as<float>(),
                   kept = (*values)[*line.next].as<float>();
        for (std::size_t n = 0; n < whole.size(); ++n)
          REQUIRE(std::bit_cast<std::uint32_t>(sent[n] + kept[n]) == std::bit_cast<std::uint32_t>(whole[n]));
        CHECK(std::ranges::count_if(sent, [](float x) { return x != 0; }) >= workers);
        CHECK(std::ranges::any_of(kept, [](float x) { return x != 0; }));
      }
      if (workers == 1) continue;
      const auto classes = program::classify(*program, workers);
      REQUIRE(classes.ok());
      const auto in_parts = test::evaluate_in_parts(*program, *classes, {0, workers / 2, workers}, inputs);
      if (!in_parts.ok()) FAIL(in_parts.error().message);
      CHECK(kernels::to_number(test::first_difference(*values, *in_parts)) == -1);
    }
  }
}

TEST_CASE("with all of its numbers sent, dgc is the SGD of the sum of its workers' gradients") {
  auto recipe = recipe_for(8, "dgc:lr=0.5,momentum=0.9,density=1", 2);
  const auto graph = test::captured_mlp({6, 5, 3}, 8);
  const Program dgc = *lower_training_step(graph, recipe);
  recipe.optimizer = spec_of("sgd:lr=0.5");
  const Program sgd = *lower_training_step(graph, recipe);
  test::StepInputs inputs;
  inputs.x = Tensor(DType::kF32, {8, 6});
  for (std::size_t n = 0; n < 48; ++n) inputs.x.as<float>()[n] = static_cast<float>(n * 29 % 17) / 8 - 1;
  inputs.y = Tensor(DType::kU8, {8});
  for (std::size_t n = 0; n < 8; ++n) inputs.y.bytes()[n] = static_cast<std::uint8_t>(n % 3);
  inputs.schedule = *program::schedule_parameters(recipe.optimizer, {}, 100);
  State a = *initial_state(dgc, graph), b = *initial_state(sgd, graph);
  for (inputs.step = 0; inputs.step < 3; ++inputs.step) {
    a = test::next_state(dgc, a, inputs);
    b = test::next_state(sgd, b, inputs);
    for (const Entry& entry : b) {
      CAPTURE(entry.name, inputs.step);
      CHECK(std::ranges::equal(find_entry(a, entry.name)->tensor.bytes(), entry.tensor.bytes()));
    }
  }
}

TEST_CASE("what dgc does not go with is refused") {
  const auto graph = test::captured_mlp({6, 5, 3}, 8);
  const auto refused = [&](const TrainingRecipe& recipe, const char* what) {
    const auto program = lower_training_step(graph, recipe);
    REQUIRE_FALSE(program.ok());
    CHECK(program.error().code == ErrorCode::kUsage);
    CHECK_THAT(program.error().message, Catch::Contains(what));
  };
  TrainingRecipe recipe = recipe_for(8, "dgc", 2);
  recipe.clip_norm = 1;
  refused(recipe, "clips the gradients of each worker");
  recipe = recipe_for(8, "dgc", 2);
  recipe.update.accumulate = 2;
  refused(recipe, "--accumulate");
  refused(recipe_for(8, "dgc", 3), "do not divide a batch of 8");
}
