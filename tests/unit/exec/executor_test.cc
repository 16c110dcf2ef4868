#include "dgx/exec/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "dgx/core/bulk.h"
#include "instruction_sets.h"
#include "networks.h"

namespace dgx::exec {
namespace {

using test::Network;
using test::require_same;
using test::same_bits;
using test::Samples;

std::unique_ptr<ExactExecutor> executor_of(const std::shared_ptr<const program::Program>& program,
                                           const Network& network, const Samples& data, int threads) {
  auto executor = ExactExecutor::create(program, test::step_inputs(network, data), threads);
  if (!executor.ok()) FAIL(executor.error().message);
  return std::move(executor).value();
}

void check_network(const Network& network, std::int64_t steps) {
  const auto program = network.step_program();
  const Samples data(network);
  State reference = *program::initial_state(*program, test::kSeed);
  std::vector<State> states = {reference};
  for (std::int64_t s = 0; s < steps; ++s) {
    states.push_back(test::next_state(*program, states.back(), test::reference_inputs(network, data, s)));
  }
  test::with_every_instruction_set([&](auto set) {
    for (const int threads : {1, 2, 3}) {
      const auto executor = executor_of(program, network, data, threads);
      REQUIRE(executor->load(states[0]).ok());
      for (std::size_t s = 1; s < states.size(); ++s) {
        const Status status = executor->step();
        INFO((status.ok() ? "" : status.error().message));
        REQUIRE(status.ok());
        require_same(executor->state().value(), states[s],
                     std::string(name_of(set)) + ", " + std::to_string(threads) + " threads, step " +
                         std::to_string(s));
      }
    }
  });
}

TEST_CASE(
    "a fused step gives the bits of the definition for every activation, instruction set and thread count") {
  for (const auto activation :
       {program::Activation::kRelu, program::Activation::kGelu, program::Activation::kGeluTanh,
        program::Activation::kTanh, program::Activation::kSigmoid}) {
    Network network;
    network.activation = activation;
    INFO(name_of(activation));
    check_network(network, 3);
  }
}

TEST_CASE("samples in a file give the states of samples in memory, also one value at a time") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  auto x = BulkTensor::create(data.x.dtype(), data.x.shape(), 1);
  REQUIRE(x.ok());
  std::ranges::copy(data.x.bytes(), x->bytes().begin());
  for (const int threads : {1, 2, 3}) {
    auto inputs = test::step_inputs(network, data);
    inputs.fields["x"] = x->view();
    const auto in_file = ExactExecutor::create(program, inputs, threads);
    REQUIRE(in_file.ok());
    const auto in_memory = executor_of(program, network, data, threads);
    const State start = *program::initial_state(*program, test::kSeed);
    REQUIRE((in_memory->load(start).ok() && (*in_file)->load(start).ok()));
    for (int step = 0; step < 4; ++step) {
      REQUIRE(in_memory->step().ok());
      REQUIRE((step == 2 ? (*in_file)->trace(program::ValueVisitor()) : (*in_file)->step()).ok());
      require_same((*in_file)->state().value(), in_memory->state().value(), "step " + std::to_string(step));
    }
    // A jump in the order: the rows that were prefetched are not the ones needed.
    REQUIRE((in_memory->load(start).ok() && (*in_file)->load(start).ok()));
    REQUIRE((in_memory->step().ok() && (*in_file)->step().ok()));
    require_same((*in_file)->state().value(), in_memory->state().value(), "again from the start");
  }
}

TEST_CASE("rows that cannot be read any more are an error of the step") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  auto x = BulkTensor::create(data.x.dtype(), data.x.shape(), 1);
  REQUIRE(x.ok());
  auto inputs = test::step_inputs(network, data);
  inputs.fields["x"] = x->view();
  const auto executor = ExactExecutor::create(program, inputs, 2);
  REQUIRE(executor.ok());
  REQUIRE((*executor)->load(*program::initial_state(*program, test::kSeed)).ok());
  REQUIRE(::ftruncate(x->view().file, 0) == 0);
  const Status step = (*executor)->step();
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().code == ErrorCode::kIo);
}

TEST_CASE("a profile tells of every operation what it takes, and changes no bit") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  for (const int threads : {1, 2}) {
    const auto plain = executor_of(program, network, data, threads);
    const auto profiled = executor_of(program, network, data, threads);
    const State start = *program::initial_state(*program, test::kSeed);
    REQUIRE(plain->load(start).ok());
    REQUIRE(profiled->load(start).ok());
    REQUIRE(profiled->profile().operations.empty());
    REQUIRE(profiled->start_profile().ok());
    for (int s = 0; s < 3; ++s) REQUIRE((plain->step().ok() && profiled->step().ok()));
    require_same(profiled->state().value(), plain->state().value(), "profiled");
    const StepProfile profile = profiled->profile();
    CHECK(profile.steps == 3);
    double sum = 0;
    for (const OperationProfile& operation : profile.operations) {
      INFO(operation.kind << " " << operation.form);
      CHECK(operation.seconds > 0);
      CHECK(operation.bytes > 0);
      CHECK(!operation.values.empty());
      sum += operation.seconds;
    }
    CHECK(sum <= profile.seconds);
    CHECK(plain->profile().steps == 0);
  }
}

TEST_CASE("a profile gives the form of every part of an operation, and no half of a bracket") {
  Network network;
  network.sizes = {320, 48, 3};
  const auto program = network.step_program();
  const Samples data(network);
  const auto executor = executor_of(program, network, data, 1);
  REQUIRE(executor->load(*program::initial_state(*program, test::kSeed)).ok());
  REQUIRE(executor->start_profile().ok());
  REQUIRE(executor->step().ok());
  bool has_two_parts = false;
  for (const OperationProfile& operation : executor->profile().operations) {
    INFO(operation.kind << " " << operation.form);
    CHECK(operation.form.find_first_of("()") == std::string::npos);
    has_two_parts |= operation.kind == "product with maps" && operation.form.find(" operations, ") < 4;
  }
  CHECK(has_two_parts);
}

TEST_CASE("a fused step gives the bits of the definition for every optimiser, loss and clipping") {
  for (const char* optimizer :
       {"sgd:lr=0.1", "sgd:lr=0.1,weight-decay=5e-4", "sgd:lr=0.1,momentum=0.9,nesterov", "adam:lr=1e-3",
        "adam:lr=1e-3,weight-decay=0.1", "adamw:lr=3e-4,betas=0.9/0.95,weight-decay=0.1"}) {
    for (const auto loss : {program::LossKind::kCrossEntropy, program::LossKind::kMeanSquaredError}) {
      Network network;
      network.optimizer = optimizer;
      network.loss = loss;
      if (optimizer[3] == ':') network.clip_norm = 0.01;
      INFO(optimizer << " " << program::name_of(loss));
      check_network(network, 3);
    }
  }
}

TEST_CASE("a fused step gives the bits of the definition at the edges of strips, tiles and blocks") {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{1, 1}, {1, 2, 1}, {33, 31, 17, 2}, {257, 16, 10}, {40, 513, 3}}) {
    Network network;
    network.sizes = sizes;
    network.batch = sizes.size() == 2 ? 1 : 9;
    network.loss =
        sizes.back() == 1 ? program::LossKind::kMeanSquaredError : program::LossKind::kCrossEntropy;
    network.x_dtype = sizes[0] % 2 == 0 ? DType::kF32 : DType::kU8;
    INFO(sizes[0] << " inputs, " << sizes.size() << " layers");
    check_network(network, 2);
  }
}

TEST_CASE("a fused step gives the bits of the definition where weights stay packed from step to step") {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{5, 16, 3}, {320, 48, 3}, {130, 528, 2}, {600, 32, 16, 4}}) {
    for (const char* optimizer : {"sgd:lr=0.1,momentum=0.9", "adam:lr=1e-3"}) {
      Network network;
      network.sizes = sizes;
      network.optimizer = optimizer;
      INFO(sizes[0] << " inputs, " << sizes[1] << " hidden, " << optimizer);
      const auto plan = executor_of(network.step_program(), network, Samples(network), 1)->explain();
      REQUIRE(plan.find("in panels") != std::string::npos);
      check_network(network, 2);
    }
  }
}

TEST_CASE("steps and traces follow each other in any order where weights are packed") {
  Network network;
  network.sizes = {40, 16, 3};
  const auto program = network.step_program();
  const Samples data(network);
  const auto executor = executor_of(program, network, data, 2);
  const auto reference = executor_of(program, network, data, 1);
  const State start = *program::initial_state(*program, test::kSeed);
  REQUIRE(executor->load(start).ok());
  REQUIRE(reference->load(start).ok());
  for (int s = 0; s < 6; ++s) {
    REQUIRE((s % 3 == 1 ? executor->trace({}) : executor->step()).ok());
    REQUIRE(reference->trace({}).ok());
    require_same(executor->state().value(), reference->state().value(), "step " + std::to_string(s));
    const State state = executor->state().value();
    const auto digests = executor->digests(s % 3);
    CHECK(digests->tensors == merkle::state_digests(state)->tensors);
    CHECK(digests->state == merkle::state_digests(state)->state);
  }
}

TEST_CASE("a trace shows every value of the definition, in order, and ends in the same state") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  const State start = *program::initial_state(*program, test::kSeed);
  const auto values = test::run_program(*program, start, test::reference_inputs(network, data, 0));
  const auto executor = executor_of(program, network, data, 2);
  REQUIRE(executor->load(start).ok());
  std::size_t next = 0;
  REQUIRE(executor
              ->trace([&](kernels::ValueIndex v, const TensorView& view) -> Status {
                CHECK(static_cast<std::size_t>(v) == next++);
                INFO("value " << to_number(v));
                REQUIRE(same_bits(Tensor(view), values[v]));
                return {};
              })
              .ok());
  CHECK(next == program->values.size());
  require_same(executor->state().value(),
               test::next_state(*program, start, test::reference_inputs(network, data, 0)), "traced");
  REQUIRE(executor->step().ok());
  CHECK(executor->position() == 2);
}

TEST_CASE("a trace shows the one NaN, whichever the processor makes") {
  const std::vector<std::string> lines = {
      R"({"k":"input","next":0,"s":[40],"src":"state model/a","t":"f32","v":0})",
      R"({"do":["div x0 x0"],"k":"map","s":[40],"t":"f32","v":1,"x":["0[i0]"]})",
      R"({"f":[40],"k":"dot","s":[],"t":"f32","v":2,"x":["1[k0]","0[k0]"]})",
      R"({"f":[40],"k":"sum","s":[],"t":"f32","v":3,"x":["1[k0]"]})",
      R"({"do":["eq x0 x0","select t0 x0 0x0p0"],"k":"map","s":[],"t":"f32","v":4,"x":["3[]"]})",
      R"({"k":"input","next":4,"s":[],"src":"state loss","t":"f32","v":5})",
      R"({"k":"input","next":7,"s":[],"src":"state step","t":"i64","v":6})",
      R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":7,"x":["6[]"]})"};
  std::string joined;
  for (const std::string& line : lines) joined += line + "\n";
  auto parsed = program::parse_program(joined);
  if (!parsed.ok()) FAIL(parsed.error().message);
  const auto program = std::make_shared<const program::Program>(*parsed);
  const State start = {{"loss", Tensor(DType::kF32, {})},
                       {"model/a", Tensor(DType::kF32, {40})},
                       {"step", Tensor(DType::kI64, {})}};
  const auto values = test::run_program(*program, start, {});
  const Tensor sample(DType::kF32, {1});
  test::with_every_instruction_set([&](auto set) {
    const auto executor = ExactExecutor::create(program, {{}, 1, 1, {{"x", sample.view()}}}, 2);
    REQUIRE(executor.ok());
    REQUIRE((*executor)->load(start).ok());
    const auto visit = [&](kernels::ValueIndex v, const TensorView& view) -> Status {
      INFO(name_of(set) << ", value " << to_number(v));
      CHECK(same_bits(Tensor(view), values[v]));
      return {};
    };
    REQUIRE((*executor)->trace(visit).ok());
  });
  for (const int v : {1, 2, 3}) {
    for (const float number : values[kernels::ValueIndex{v}].as<float>())
      CHECK(std::bit_cast<std::uint32_t>(number) == 0x7FC00000U);
  }
}

TEST_CASE("a fault changes the value it names and what follows from it") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  const State start = *program::initial_state(*program, test::kSeed);
  const auto honest = test::run_program(*program, start, test::reference_inputs(network, data, 0));
  for (const kernels::ValueIndex v : program->values.indices()) {
    const auto executor = executor_of(program, network, data, 1);
    REQUIRE(executor->load(start).ok());
    REQUIRE(executor
                ->trace({v, 0, 1},
                        [&](kernels::ValueIndex at, const TensorView& view) -> Status {
                          if (at < v) CHECK(same_bits(Tensor(view), honest[at]));
                          if (at == v) CHECK_FALSE(same_bits(Tensor(view), honest[at]));
                          return {};
                        })
                .ok());
  }
}

TEST_CASE("a fault in any input lasts one step") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  const State start = *program::initial_state(*program, test::kSeed);
  for (const kernels::ValueIndex v : program->values.indices()) {
    if (program->values[v].kind != kernels::Kind::kInput) continue;
    INFO("value " << to_number(v));
    const auto executor = executor_of(program, network, data, 1);
    REQUIRE(executor->load(start).ok());
    REQUIRE(executor->trace(Fault{v, 0, 3}, {}).ok());
    REQUIRE(executor->load(start).ok());
    REQUIRE(executor->trace({}).ok());
    require_same(executor->state().value(),
                 test::next_state(*program, start, test::reference_inputs(network, data, 0)), "after");
  }
}

TEST_CASE("a fault in the constant one reaches what sums with it") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  const State start = *program::initial_state(*program, test::kSeed);
  for (const kernels::ValueIndex v : program->values.indices()) {
    if (program->values[v].source.kind != kernels::Source::Kind::kConstant) continue;
    if (program->values[v].kind != kernels::Kind::kInput) continue;
    const auto executor = executor_of(program, network, data, 1);
    REQUIRE(executor->load(start).ok());
    REQUIRE(executor->trace(Fault{v, 0, 22}, {}).ok());
    const State honest = test::next_state(*program, start, test::reference_inputs(network, data, 0));
    CHECK_FALSE(same_bits(find_entry(executor->state().value(), "model/0.bias")->tensor,
                          find_entry(honest, "model/0.bias")->tensor));
  }
}

TEST_CASE("a state that is not finite is not loaded") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  State state = *program::initial_state(*program, test::kSeed);
  find_entry(state, "model/0.weight")->tensor.as<float>()[5] = INFINITY;
  const Status status = executor_of(program, network, data, 1)->load(state);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message == "entry model/0.weight is not finite at element 5");
}

TEST_CASE("a state before the first step, or behind all, is not loaded") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  State state = *program::initial_state(*program, test::kSeed);
  for (const std::int64_t step :
       {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), (std::int64_t{1} << 40) + 1}) {
    CAPTURE(step);
    find_entry(state, "step")->tensor.as<std::int64_t>()[0] = step;
    const Status status = executor_of(program, network, data, 1)->load(state);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kMalformed);
    CHECK(status.error().message == fmt::format("state: step is {}, must be 0 to 1099511627776", step));
  }
}

TEST_CASE("a fault outside the program is refused") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  const auto executor = executor_of(program, network, data, 1);
  for (const Fault& fault : {Fault{kernels::kNoValue, 0, 0}, Fault{program->values.next(), 0, 0},
                             Fault{{}, 1 << 20, 0}, Fault{{}, 0, 32}, Fault{{}, 0, -1}}) {
    const Status status = executor->trace(fault, {});
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("a state that would not be finite stops training and names step, entry and element") {
  Network network;
  network.optimizer = "sgd:lr=1e30";
  network.loss = program::LossKind::kMeanSquaredError;
  network.x_dtype = DType::kF32;
  const auto program = network.step_program();
  const Samples data(network);
  const auto executor = executor_of(program, network, data, 2);
  REQUIRE(executor->load(*program::initial_state(*program, test::kSeed)).ok());
  Status status;
  for (int s = 0; s < 4 && status.ok(); ++s) status = executor->step();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kMalformed);
  CHECK(status.error().message.find("is not finite at element") != std::string::npos);
}

#if defined(__x86_64__)
TEST_CASE("a thread that flushes subnormal numbers to zero gets no executor") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  const unsigned before = _mm_getcsr();
  for (const unsigned flag : {0x8000U, 0x0040U, 0x2000U}) {  // FTZ, DAZ, rounding downwards
    _mm_setcsr(before | flag);
    const auto executor = ExactExecutor::create(program, test::step_inputs(network, data), 2);
    const auto evaluator = Evaluator::create(program, 2);
    _mm_setcsr(before);
    REQUIRE_FALSE(executor.ok());
    CHECK(executor.error().code == ErrorCode::kInternal);
    CHECK(executor.error().message.find(flag == 0x2000U
                                            ? "does not round to nearest"
                                            : "flushes subnormal numbers to zero") != std::string::npos);
    CHECK_FALSE(evaluator.ok());
  }
  CHECK(ExactExecutor::create(program, test::step_inputs(network, data), 2).ok());
}
#endif

TEST_CASE("every scalar that is watched has the number of the definition, and no step changes for it") {
  Network network;
  network.clip_norm = 0.5;
  const auto program = network.step_program();
  const Samples data(network);
  auto inputs = test::step_inputs(network, data);
  for (const kernels::ValueIndex v : program->values.indices()) {
    const kernels::Primitive& line = program->values[v];
    if (line.kind != kernels::Kind::kInput && line.dtype == DType::kF32 && line.shape.empty())
      inputs.watched.push_back(v);
  }
  REQUIRE_FALSE(inputs.watched.empty());
  const auto executor = ExactExecutor::create(program, inputs, 2);
  REQUIRE(executor.ok());
  State state = *program::initial_state(*program, test::kSeed);
  REQUIRE((*executor)->load(state).ok());
  CHECK((*executor)->watched().empty());
  for (std::int64_t s = 0; s < 2; ++s) {
    const auto batch = test::reference_inputs(network, data, s);
    const auto values = test::run_program(*program, state, batch);
    state = test::next_state(*program, state, batch);
    REQUIRE((*executor)->step().ok());
    REQUIRE((*executor)->watched().size() == inputs.watched.size());
    for (std::size_t n = 0; n < inputs.watched.size(); ++n)
      CHECK((*executor)->watched()[n] == values[inputs.watched[n]].as<float>()[0]);
    require_same((*executor)->state().value(), state, "step " + std::to_string(s));
  }
  REQUIRE((*executor)->trace([](kernels::ValueIndex, const TensorView&) { return Status(); }).ok());
  CHECK((*executor)->watched().empty());
}

TEST_CASE("a dataset or state of other shapes is refused") {
  const Network network;
  const auto program = network.step_program();
  const Samples data(network);
  Network wider = network;
  wider.sizes[0] = 8;
  const Samples other(wider);
  auto inputs = test::step_inputs(network, data);
  inputs.fields["x"] = other.x.view();
  auto executor = ExactExecutor::create(program, inputs, 1);
  REQUIRE_FALSE(executor.ok());
  CHECK(executor.error().message.find("batch x") != std::string::npos);
  State state = *program::initial_state(*program, test::kSeed);
  state.pop_back();
  CHECK_FALSE(executor_of(program, network, data, 1)->load(state).ok());
}

}  // namespace
}  // namespace dgx::exec
