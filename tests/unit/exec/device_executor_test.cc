#include "dgx/exec/device_executor.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/core/bulk.h"
#include "emulated_device.h"
#include "networks.h"

// Runs on the emulated device: the same kernels, plans and memory as on a GPU.
namespace dgx::exec {
namespace {

using test::Network;
using test::require_same;
using test::Samples;

std::unique_ptr<DeviceExecutor> executor_of(const Network& network, const Samples& data,
                                            const std::string& behaves = "") {
  auto executor = DeviceExecutor::create(network.step_program(), test::step_inputs(network, data),
                                         test::emulated_device(behaves), 1);
  if (!executor.ok()) FAIL(executor.error().message);
  return std::move(executor).value();
}

State start_of(const Network& network) {
  return *program::initial_state(*network.step_program(), test::kSeed);
}

TEST_CASE("a device gives the bits of the definition, in whatever order threads and blocks take turns",
          "[device]") {
  Network network;
  const Samples data(network);
  for (const auto activation :
       {program::Activation::kRelu, program::Activation::kGelu, program::Activation::kTanh}) {
    network.activation = activation;
    for (const char* order : {"", "order=reversed", "order=shuffled"}) {
      const auto executor = executor_of(network, data, order);
      State reference = start_of(network);
      REQUIRE(executor->load(reference).ok());
      for (std::int64_t s = 0; s < 3; ++s) {
        reference =
            test::next_state(*network.step_program(), reference, test::reference_inputs(network, data, s));
        REQUIRE(executor->step().ok());
        CHECK(executor->position() == s + 1);
        require_same(executor->state().value(), reference, std::string(order) + " step " + std::to_string(s));
        CHECK(executor->loss() == find_entry(reference, "loss")->tensor.as<float>()[0]);
      }
    }
  }
}

TEST_CASE("scalars that are watched have the CPU's numbers on a device", "[device]") {
  Network network;
  network.clip_norm = 0.5;
  const Samples data(network);
  auto inputs = test::step_inputs(network, data);
  const auto program = network.step_program();
  for (const kernels::ValueIndex v : program->values.indices()) {
    const kernels::Primitive& line = program->values[v];
    if (line.kind != kernels::Kind::kInput && line.dtype == DType::kF32 && line.shape.empty())
      inputs.watched.push_back(v);
  }
  const auto executor = DeviceExecutor::create(program, inputs, test::emulated_device(""), 1);
  const auto reference = ExactExecutor::create(program, inputs, 1);
  REQUIRE((executor.ok() && reference.ok()));
  REQUIRE(((*executor)->load(start_of(network)).ok() && (*reference)->load(start_of(network)).ok()));
  for (int s = 0; s < 2; ++s) {
    REQUIRE(((*executor)->step().ok() && (*reference)->step().ok()));
    CHECK(std::ranges::equal((*executor)->watched(), (*reference)->watched()));
  }
  CHECK_FALSE((*executor)->watched().empty());
}

TEST_CASE("a device traces and makes faults by the CPU, and goes on from there", "[device]") {
  const Network network;
  const Samples data(network);
  const auto executor = executor_of(network, data);
  const auto reference = ExactExecutor::create(network.step_program(), test::step_inputs(network, data), 1);
  REQUIRE(reference.ok());
  REQUIRE((executor->load(start_of(network)).ok() && (*reference)->load(start_of(network)).ok()));
  REQUIRE((executor->step().ok() && (*reference)->step().ok()));
  int values = 0;
  const auto count = [&](kernels::ValueIndex, const TensorView&) { return ++values, Status{}; };
  REQUIRE((executor->trace(count).ok() && (*reference)->step().ok()));
  CHECK(values == static_cast<int>(network.step_program()->values.size()));
  const Fault fault{kernels::ValueIndex{values - 1}, 0, 3};
  REQUIRE((executor->trace(fault, {}).ok() && (*reference)->trace(fault, {}).ok()));
  require_same(executor->state().value(), (*reference)->state().value(), "after a fault");
  REQUIRE((executor->step().ok() && (*reference)->step().ok()));
  require_same(executor->state().value(), (*reference)->state().value(), "a step after a fault");
}

TEST_CASE("a field is found by its name, whatever it is", "[device]") {
  const Network network;
  const Samples data(network);
  auto program = *network.step_program();
  for (const kernels::ValueIndex v : program.values.indices()) {
    kernels::Source& source = program.values[v].source;
    if (source.kind == kernels::Source::Kind::kBatch && source.name == "y") source.name = "mask";
  }
  const auto masked = std::make_shared<const program::Program>(program);
  auto inputs = test::step_inputs(network, data);
  CHECK_FALSE(ExactExecutor::create(masked, inputs, 1).ok());
  CHECK_FALSE(DeviceExecutor::create(masked, inputs, test::emulated_device(), 1).ok());
  inputs.fields["mask"] = inputs.fields["y"];
  Tensor other = data.y;
  for (auto& byte : other.bytes()) byte = 0;
  inputs.fields["y"] = other.view();
  const auto on_device = DeviceExecutor::create(masked, inputs, test::emulated_device(), 1);
  const auto on_cpu = ExactExecutor::create(masked, inputs, 1);
  const auto reference = ExactExecutor::create(network.step_program(), test::step_inputs(network, data), 1);
  REQUIRE((on_device.ok() && on_cpu.ok() && reference.ok()));
  for (exec::StepExecutor* each :
       std::initializer_list<StepExecutor*>{on_device->get(), on_cpu->get(), reference->get()}) {
    REQUIRE(each->load(start_of(network)).ok());
    for (int s = 0; s < 3; ++s) REQUIRE(each->step().ok());
  }
  require_same((*on_device)->state().value(), (*reference)->state().value(), "on the device");
  require_same((*on_cpu)->state().value(), (*reference)->state().value(), "on the CPU");
}

TEST_CASE("a device goes back when it is told to, and reads rows from a file", "[device]") {
  const Network network;
  const Samples data(network);
  auto x = BulkTensor::create(data.x.dtype(), data.x.shape(), 1);
  REQUIRE(x.ok());
  std::ranges::copy(data.x.bytes(), x->bytes().begin());
  auto inputs = test::step_inputs(network, data);
  inputs.fields["x"] = x->view();
  const auto executor = DeviceExecutor::create(network.step_program(), inputs, test::emulated_device(), 1);
  REQUIRE(executor.ok());
  REQUIRE((*executor)->load(start_of(network)).ok());
  for (int s = 0; s < 2; ++s) REQUIRE((*executor)->step().ok());
  const State second = (*executor)->state().value();
  REQUIRE((*executor)->step().ok());
  REQUIRE((*executor)->load(start_of(network)).ok());
  for (int s = 0; s < 2; ++s) REQUIRE((*executor)->step().ok());
  require_same((*executor)->state().value(), second, "again");
  REQUIRE(::ftruncate(x->view().file, 0) == 0);
  REQUIRE((*executor)->step().ok());  // its rows had already been gathered
  const Status step = (*executor)->step();
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().code == ErrorCode::kIo);
}

TEST_CASE("a snapshot is of its moment, whenever it is taken, and with little memory too",
          "[device][emulated]") {
  const Network network;
  const Samples data(network);
  const auto planned = executor_of(network, data)->planned_bytes();
  for (const std::string& behaves : {std::string(), "memory=" + std::to_string(planned + 1)}) {
    const auto executor = executor_of(network, data, behaves);
    REQUIRE(executor->load(start_of(network)).ok());
    for (int round = 0; round < 2; ++round) {
      REQUIRE(executor->step().ok());
      const State now = executor->state().value();
      const auto snapshot = executor->snapshot({});
      REQUIRE(snapshot.ok());
      for (int s = 0; s < 2; ++s) REQUIRE(executor->step().ok());
      require_same((*snapshot)().value(), now, "of " + behaves);
    }
  }
}

TEST_CASE("a step that is too large for a device is told with both numbers before anything is taken",
          "[device][emulated]") {
  const Network network;
  const Samples data(network);
  const auto executor = DeviceExecutor::create(network.step_program(), test::step_inputs(network, data),
                                               test::emulated_device("memory=1000"), 1);
  REQUIRE_FALSE(executor.ok());
  CHECK(executor.error().code == ErrorCode::kInternal);
  CHECK(executor.error().message.starts_with("a step needs "));
  CHECK(executor.error().message.ends_with(" bytes of device memory, emulated device has 1000 free"));
}

TEST_CASE("a device that is lost says so from then on, and gives no state away", "[device][emulated]") {
  const Network network;
  const Samples data(network);
  const auto executor = executor_of(network, data, "lost-after=40");
  REQUIRE(executor->load(start_of(network)).ok());
  Status step;
  int steps = 0;
  for (; steps < 40 && step.ok(); ++steps) step = executor->step();
  REQUIRE_FALSE(step.ok());
  CHECK(steps > 1);
  CHECK(step.error().code == ErrorCode::kInternal);
  CHECK(step.error().message.find("the device is lost") != std::string::npos);
  CHECK_FALSE(executor->step().ok());
  CHECK_FALSE(executor->state().ok());
  CHECK_FALSE(executor->load(start_of(network)).ok());
}

TEST_CASE("a device refuses what is not the program's or not finite in the CPU's words", "[device]") {
  const Network network;
  const Samples data(network);
  const auto executor = executor_of(network, data);
  const auto reference = ExactExecutor::create(network.step_program(), test::step_inputs(network, data), 1);
  REQUIRE(reference.ok());
  State state = start_of(network);
  for (Entry& entry : state) {
    if (entry.name.starts_with("model/")) std::ranges::fill(entry.tensor.as<float>(), 3e38F);
  }
  REQUIRE((executor->load(state).ok() && (*reference)->load(state).ok()));
  const Status ours = executor->step(), theirs = (*reference)->step();
  REQUIRE((!ours.ok() && !theirs.ok()));
  CHECK(ours.error().code == theirs.error().code);
  CHECK(ours.error().message == theirs.error().message);
  state.pop_back();
  CHECK(executor->load(state).error().message == (*reference)->load(state).error().message);
  auto inputs = test::step_inputs(network, data);
  inputs.batch += 1;
  const auto refused = DeviceExecutor::create(network.step_program(), inputs, test::emulated_device(), 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kMalformed);
}

}  // namespace
}  // namespace dgx::exec
