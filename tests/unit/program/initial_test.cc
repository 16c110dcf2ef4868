#include "dgx/program/initial.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "dgx/kernels/philox.h"
#include "dgx/merkle/digests.h"

using namespace dgx;
using namespace dgx::program;

namespace {

/// A program of state entries only, in order of name: initial_state reads nothing else.
Program entries_of(const std::vector<std::pair<std::string, Shape>>& entries) {
  Program program;
  for (const auto& [name, shape] : entries) {
    kernels::Primitive entry;
    entry.kind = kernels::Kind::kInput;
    entry.dtype = name == "step" ? DType::kI64 : DType::kF32;
    entry.shape = shape;
    entry.source = {kernels::Source::Kind::kState, name, {}};
    program.values.push_back(std::move(entry));
  }
  return program;
}

Program small_program() {
  return entries_of({{"loss", {}},
                     {"model/0.bias", {3}},
                     {"model/0.weight", {3, 4}},
                     {"model/2.bias", {2}},
                     {"model/2.weight", {2, 3}},
                     {"optimizer/exp_avg/0.weight", {3, 4}},
                     {"step", {}}});
}

}  // namespace

TEST_CASE("the initial state is a function of program and seed") {
  const auto program = small_program();
  const auto state = initial_state(program, 7);
  REQUIRE(state.ok());
  CHECK(check_state(program, *state).ok());
  // Sorted model entries: 0.bias, 0.weight, 2.bias, 2.weight are streams 0 to 3; fan-ins 4 and 3.
  const std::pair<const char*, float> entries[] = {
      {"model/0.bias", 4.0F}, {"model/0.weight", 4.0F}, {"model/2.bias", 3.0F}, {"model/2.weight", 3.0F}};
  std::uint32_t ordinal = 0;
  for (const auto& [name, fan_in] : entries) {
    const float bound = 1.0F / std::sqrt(fan_in);
    const auto numbers = find_entry(*state, name)->tensor.as<float>();
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const float u = kernels::uniform(7, {kernels::StreamKind::kInitialWeights, ordinal}, 0,
                                       static_cast<std::int64_t>(n));
      CHECK(numbers[n] == (2 * u - 1) * bound);
      CHECK(std::fabs(numbers[n]) <= bound);
    }
    ++ordinal;
  }
  for (const Entry& entry : *state) {
    if (entry.name.starts_with("model/")) continue;
    for (const std::uint8_t byte : entry.tensor.bytes()) CHECK(byte == 0);
  }
  CHECK(find_entry(*initial_state(program, 8), "model/0.weight")->tensor.as<float>()[0] !=
        find_entry(*state, "model/0.weight")->tensor.as<float>()[0]);
}

namespace {

void check_normal(const State& state, const char* name, std::uint32_t ordinal, float deviation) {
  INFO(name);
  const auto numbers = find_entry(state, name)->tensor.as<float>();
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const float z =
        kernels::normal(7, {kernels::StreamKind::kInitialWeights, ordinal}, 0, static_cast<std::int64_t>(n));
    CHECK(numbers[n] == z * deviation);
  }
}

void check_all(const State& state, const char* name, float number) {
  INFO(name);
  for (const float found : find_entry(state, name)->tensor.as<float>()) CHECK(found == number);
}

}  // namespace

TEST_CASE("a decoder's weights are normal, narrower where blocks add up, its biases zero and its norms one") {
  const auto program = entries_of({{"model/h.0.attn.c_proj.bias", {4}},
                                   {"model/h.0.attn.c_proj.weight", {4, 4}},
                                   {"model/h.0.ln_1.bias", {4}},
                                   {"model/h.0.ln_1.weight", {4}},
                                   {"model/h.0.mlp.c_proj.weight", {4, 16}},
                                   {"model/h.1.attn.c_proj.weight", {4, 4}},
                                   {"model/wte.weight", {8, 4}},
                                   {"optimizer/momentum/wte.weight", {8, 4}}});
  const auto state = initial_state(program, 7, ModelKind::kGpt);
  REQUIRE(state.ok());
  const float narrow = 0.02F / std::sqrt(4.0F);
  check_all(*state, "model/h.0.attn.c_proj.bias", 0);
  check_normal(*state, "model/h.0.attn.c_proj.weight", 1, narrow);
  check_all(*state, "model/h.0.ln_1.bias", 0);
  check_all(*state, "model/h.0.ln_1.weight", 1);
  check_normal(*state, "model/h.0.mlp.c_proj.weight", 4, narrow);
  check_normal(*state, "model/h.1.attn.c_proj.weight", 5, narrow);
  check_normal(*state, "model/wte.weight", 6, 0.02F);
  check_all(*state, "optimizer/momentum/wte.weight", 0);
  CHECK(!initial_state(program, 7, ModelKind::kMlp).ok());
}

TEST_CASE("a router's weights are narrower, and all else with experts is as in a decoder") {
  const auto program = entries_of({{"model/h.0.attn.c_proj.weight", {4, 4}},
                                   {"model/h.0.mlp.experts.0.c_fc.bias", {16}},
                                   {"model/h.0.mlp.experts.0.c_fc.weight", {16, 4}},
                                   {"model/h.0.mlp.experts.0.c_proj.weight", {4, 16}},
                                   {"model/h.0.mlp.router.weight", {2, 4}}});
  const auto state = initial_state(program, 7, ModelKind::kSwitch);
  REQUIRE(state.ok());
  check_all(*state, "model/h.0.mlp.experts.0.c_fc.bias", 0);
  check_normal(*state, "model/h.0.mlp.experts.0.c_fc.weight", 2, 0.02F);
  check_normal(*state, "model/h.0.mlp.experts.0.c_proj.weight", 3, 0.02F / std::sqrt(2.0F));
  check_normal(*state, "model/h.0.mlp.router.weight", 4, 0.002F);
}

TEST_CASE("a residual network's convolutions are Kaiming normal, its statistics those of nothing seen") {
  const auto program = entries_of({{"model/bn1.bias", {8}},
                                   {"model/bn1.running_mean", {8}},
                                   {"model/bn1.running_var", {8}},
                                   {"model/bn1.weight", {8}},
                                   {"model/conv1.weight", {8, 3, 3, 3}},
                                   {"model/fc.bias", {5}},
                                   {"model/fc.weight", {5, 8}}});
  const auto state = initial_state(program, 7, ModelKind::kResNet20);
  REQUIRE(state.ok());
  check_all(*state, "model/bn1.bias", 0);
  check_all(*state, "model/bn1.running_mean", 0);
  check_all(*state, "model/bn1.running_var", 1);
  check_all(*state, "model/bn1.weight", 1);
  check_normal(*state, "model/conv1.weight", 4, std::sqrt(2.0F / 27.0F));
  const float u = kernels::uniform(7, {kernels::StreamKind::kInitialWeights, 5}, 0, 2);
  CHECK(find_entry(*state, "model/fc.bias")->tensor.as<float>()[2] == (2 * u - 1) * (1.0F / std::sqrt(8.0F)));
}

TEST_CASE("whole initial states have the digests of the page") {
  // dgx-numerics(7), "Checks", computed by the second implementation (tests/interop/numpy_page.py).
  using Entries = std::vector<std::pair<std::string, Shape>>;
  const auto digest = [](ModelKind kind, const Entries& model, const Entries& optimizer) {
    std::vector<std::pair<std::string, Shape>> entries{{"loss", {}}};
    for (const auto& [name, shape] : model) entries.emplace_back("model/" + name, shape);
    for (const auto& [name, shape] : optimizer) entries.emplace_back("optimizer/momentum/" + name, shape);
    std::sort(entries.begin(), entries.end());
    entries.emplace_back("step", Shape{});
    return merkle::state_digests(*initial_state(entries_of(entries), 987654321987654321, kind))->state.hex();
  };

  const Entries layers{{"0.bias", {3}}, {"0.weight", {3, 4}}, {"2.bias", {2}}, {"2.weight", {2, 3}}};
  CHECK(digest(ModelKind::kMlp, layers, layers) ==
        "f5f220d981ed4ca81f5f0bb07087f283bd5ed3657b17cbd491ef276c5bf00cab");

  Entries decoder{{"wte.weight", {5, 4}}, {"wpe.weight", {3, 4}}, {"lm_head.weight", {5, 4}}};
  const auto add = [](Entries& to, const std::string& name, const Shape& weight) {
    to.emplace_back(name + ".weight", weight);
    to.emplace_back(name + ".bias", Shape{weight[0]});
  };
  for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) add(decoder, norm, {4});
  add(decoder, "h.0.attn.c_attn", {12, 4});
  add(decoder, "h.0.attn.c_proj", {4, 4});
  add(decoder, "h.0.mlp.c_fc", {16, 4});
  add(decoder, "h.0.mlp.c_proj", {4, 16});
  CHECK(digest(ModelKind::kGpt, decoder, {}) ==
        "188140cbe6dd765f95eae4adc00332483dfb9e992d38a5baf3bc7cbd1d84d5f5");

  std::erase_if(decoder, [](const auto& entry) { return entry.first.starts_with("h.0.mlp."); });
  decoder.emplace_back("h.0.mlp.router.weight", Shape{2, 4});
  for (const std::string expert : {"h.0.mlp.experts.0.", "h.0.mlp.experts.1."}) {
    add(decoder, expert + "c_fc", {16, 4});
    add(decoder, expert + "c_proj", {4, 16});
  }
  CHECK(digest(ModelKind::kSwitch, decoder, {}) ==
        "a4169ed4749609b6bcba34aa26fdc888a836fbddc5e08bba347106a4d118bdbe");

  Entries network;
  add(network, "fc", {10, 64});
  const auto convolution = [&](const std::string& layer, int number, std::int64_t in, std::int64_t out) {
    network.emplace_back(fmt::format("{}conv{}.weight", layer, number), Shape{out, in, 3, 3});
    for (const char* last : {"weight", "bias", "running_mean", "running_var"})
      network.emplace_back(fmt::format("{}bn{}.{}", layer, number, last), Shape{out});
  };
  convolution("", 1, 1, 16);
  std::int64_t in = 16;
  for (int layer = 1; layer <= 3; ++layer) {
    for (int block = 0; block < 3; ++block) {
      for (const int number : {1, 2}) {
        const std::int64_t out = std::int64_t{8} << layer;
        convolution(fmt::format("layer{}.{}.", layer, block), number, std::exchange(in, out), out);
      }
    }
  }
  CHECK(digest(ModelKind::kResNet20, network, {}) ==
        "ffae57d7cb1707287cbe53a15796cfa018d584e9a39e5f857f3e08bf630a1131");
}

TEST_CASE("a state of other entries is not the program's") {
  const auto program = small_program();
  const auto state = *initial_state(program, 7);
  auto missing = state;
  missing.erase(missing.begin() + 2);
  CHECK_THAT(check_state(program, missing).error().message,
             Catch::Contains(state[2].name) && Catch::Contains("missing"));
  auto extra = state;
  extra.push_back({"zebra", Tensor(DType::kF32, {1})});
  CHECK_THAT(check_state(program, extra).error().message, Catch::Contains("zebra"));
  auto reshaped = state;
  reshaped[1].tensor = Tensor(DType::kF32, {1});
  CHECK_THAT(check_state(program, reshaped).error().message, Catch::Contains(state[1].name));
}

TEST_CASE("a weight that no rule covers does not start from a seed") {
  CHECK(initial_state(entries_of({{"model/scale", {3}}}), 7).error().code == ErrorCode::kUsage);
}
