#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/exec/device_executor.h"
#include "dgx/program/check.h"
#include "emulated_device.h"

// Entries that become the old values of other entries, or the same value: the executor must read the old
// before it writes the new.
namespace dgx::exec {
namespace {

std::string entry(const std::string& name, int v, int next) {
  return R"({"k":"input","next":)" + std::to_string(next) + R"(,"s":[5],"src":"state )" + name +
         R"(","t":"f32","v":)" + std::to_string(v) + "}\n";
}

std::shared_ptr<const program::Program> exchange() {
  // a <- b, b <- a·b + b, c <- b's new value, d <- b, e <- d.
  std::string text = entry("model/a", 0, 1) + entry("model/b", 1, 7) + entry("model/c", 2, 7) +
                     entry("model/d", 3, 1) + entry("model/e", 4, 3);
  text += R"({"k":"input","next":5,"s":[],"src":"state loss","t":"f32","v":5})"
          "\n";
  text += R"({"k":"input","next":8,"s":[],"src":"state step","t":"i64","v":6})"
          "\n";
  text += R"({"do":["fma x0 x1 x1"],"k":"map","s":[5],"t":"f32","v":7,"x":["0[i0]","1[i0]"]})"
          "\n";
  text += R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":8,"x":["6[]"]})"
          "\n";
  auto program = program::parse_program(text);
  if (!program.ok()) FAIL(program.error().message);
  if (const Status checked = program::check_program(*program); !checked.ok()) FAIL(checked.error().message);
  return std::make_shared<const program::Program>(std::move(program).value());
}

State state_of(const std::vector<std::vector<float>>& entries) {
  State state;
  state.push_back({"loss", Tensor(DType::kF32, {})});
  for (std::size_t e = 0; e < entries.size(); ++e) {
    state.push_back({"model/" + std::string(1, static_cast<char>('a' + e)), Tensor(DType::kF32, {5})});
    std::ranges::copy(entries[e], state.back().tensor.as<float>().begin());
  }
  state.push_back({"step", Tensor(DType::kI64, {})});
  return state;
}

void check(StepExecutor& executor, const std::string& name) {
  INFO(name);
  std::vector<std::vector<float>> now = {
      {1, 2, 3, 4, 5}, {.5F, -.25F, .125F, 0, 2}, {9, 9, 9, 9, 9}, {7, 6, 5, 4, 3}, {1, 1, 1, 1, 1}};
  REQUIRE(executor.load(state_of(now)).ok());
  for (int s = 0; s < 4; ++s) {
    std::vector<float> made(5);
    for (std::size_t i = 0; i < 5; ++i) made[i] = now[0][i] * now[1][i] + now[1][i];  // exact here
    now = {now[1], made, made, now[1], now[3]};
    REQUIRE(executor.step().ok());
    const State state = executor.state().value();
    for (std::size_t e = 0; e < now.size(); ++e) {
      INFO("step " << s << ", entry " << state[e + 1].name);
      CHECK(std::ranges::equal(state[e + 1].tensor.as<float>(), now[e]));
    }
  }
}

/// w is changed by the step and read by a product as its right side, and so packed; z becomes w's old value.
std::shared_ptr<const program::Program> old_weights() {
  std::string text =
      R"({"k":"input","next":7,"s":[32,48],"src":"state model/w","t":"f32","v":0})"
      "\n"
      R"({"k":"input","next":1,"s":[40,32],"src":"state model/x","t":"f32","v":1})"
      "\n"
      R"({"k":"input","next":0,"s":[32,48],"src":"state model/z","t":"f32","v":2})"
      "\n"
      R"({"k":"input","next":3,"s":[],"src":"state loss","t":"f32","v":3})"
      "\n"
      R"({"k":"input","next":4,"s":[],"src":"state step","t":"i64","v":4})"
      "\n"
      R"({"f":[32],"k":"dot","s":[40,48],"t":"f32","v":5,"x":["1[i0,k0]","0[k0,i1]"]})"
      "\n"
      R"({"f":[40],"k":"dot","s":[32,48],"t":"f32","v":6,"x":["1[k0,i0]","5[k0,i1]"]})"
      "\n"
      R"({"do":["fma x0 -0x1p-9 x1"],"k":"map","s":[32,48],"t":"f32","v":7,"x":["6[i0,i1]","0[i0,i1]"]})"
      "\n";
  auto program = program::parse_program(text);
  if (!program.ok()) FAIL(program.error().message);
  return std::make_shared<const program::Program>(std::move(program).value());
}

Tensor filled(const Shape& shape, float first) {
  Tensor tensor(DType::kF32, shape);
  for (float& x : tensor.as<float>()) x = first = first * 0.75F + (first > 1 ? -1.5F : 0.625F);
  return tensor;
}

}  // namespace

TEST_CASE("an entry becomes what a packed weight was", "[device]") {
  const Tensor sample(DType::kF32, {1});
  const StepInputs inputs{{}, 1, 1, {{"x", sample.view()}, {"y", sample.view()}}};
  const State start = {{"loss", Tensor(DType::kF32, {})},
                       {"model/w", filled({32, 48}, 1)},
                       {"model/x", filled({40, 32}, 2)},
                       {"model/z", filled({32, 48}, 3)},
                       {"step", Tensor(DType::kI64, {})}};
  const auto on_device = DeviceExecutor::create(old_weights(), inputs, test::emulated_device(), 1);
  const auto fused = ExactExecutor::create(old_weights(), inputs, 1),
             traced = ExactExecutor::create(old_weights(), inputs, 1);
  REQUIRE((on_device.ok() && fused.ok() && traced.ok()));
  REQUIRE(((*on_device)->load(start).ok() && (*fused)->load(start).ok() && (*traced)->load(start).ok()));
  for (int s = 0; s < 3; ++s) {
    const State before = (*traced)->state().value();
    REQUIRE(((*on_device)->step().ok() && (*fused)->step().ok() &&
             (*traced)->trace(program::ValueVisitor()).ok()));
    const State states[] = {(*traced)->state().value(), (*fused)->state().value(),
                            (*on_device)->state().value()};
    for (const State& state : states) {
      INFO("step " << s << ", " << (&state - states));
      CHECK(std::ranges::equal(state[1].tensor.bytes(), states[0][1].tensor.bytes()));
      CHECK(std::ranges::equal(state[3].tensor.bytes(), before[1].tensor.bytes()));
    }
  }
}

TEST_CASE("entries become what others were before the step, on every device", "[device]") {
  const Tensor sample(DType::kF32, {1});
  const StepInputs inputs{{}, 1, 1, {{"x", sample.view()}, {"y", sample.view()}}};
  auto on_device = DeviceExecutor::create(exchange(), inputs, test::emulated_device(), 1);
  REQUIRE(on_device.ok());
  check(**on_device, "device");
  for (const int threads : {1, 2}) {
    auto on_cpu = ExactExecutor::create(exchange(), inputs, threads);
    REQUIRE(on_cpu.ok());
    check(**on_cpu, "CPU");
  }
}

}  // namespace dgx::exec
