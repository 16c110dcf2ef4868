#include "support.h"

#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace dgx::bundle::test {
namespace fs = std::filesystem;

Folder::Folder() : path_((fs::temp_directory_path() / "dgx-bundle-XXXXXX").string()) {
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Folder::list() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void spill(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Tensor numbers(DType dtype, Shape shape, std::uint64_t seed) {
  Tensor tensor(dtype, std::move(shape));
  Random random(seed);
  if (dtype == DType::kF32) {
    for (float& value : tensor.as<float>()) {
      value = static_cast<float>(static_cast<std::int64_t>(random.next() >> 40) - (1 << 23)) * 0x1p-25F;
    }
  } else if (dtype == DType::kI64) {
    for (std::int64_t& value : tensor.as<std::int64_t>())
      value = static_cast<std::int64_t>(random.below(1000));
  } else {
    for (std::uint8_t& value : tensor.bytes()) value = static_cast<std::uint8_t>(random.next());
  }
  return tensor;
}

State sample_state(std::int64_t step, std::uint64_t seed) {
  Tensor step_tensor(DType::kI64, {});
  step_tensor.as<std::int64_t>()[0] = step;
  State state;
  state.push_back({"loss", numbers(DType::kF32, {}, seed)});
  state.push_back({"model/0.bias", numbers(DType::kF32, {7}, seed + 1)});
  // 70,001 rows do not divide into equal chunks.
  state.push_back({"model/0.weight", numbers(DType::kF32, {70001, 5}, seed + 2)});
  state.push_back({"model/counts", numbers(DType::kI64, {3, 4000}, seed + 3)});
  state.push_back({"model/empty", numbers(DType::kF32, {4, 0, 3}, seed)});
  state.push_back({"model/mask", numbers(DType::kU8, {2, 65536}, seed + 4)});
  state.push_back({"optimizer/exp_avg/0.bias", numbers(DType::kF32, {7}, seed + 5)});
  state.push_back({"step", std::move(step_tensor)});
  return state;
}

bool same(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

bool same(const State& a, const State& b) {
  return std::ranges::equal(a, b, [](const Entry& x, const Entry& y) {
    return x.name == y.name && same(x.tensor.view(), y.tensor.view());
  });
}

}  // namespace dgx::bundle::test
