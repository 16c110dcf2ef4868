#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dgx::bench {

/// Case for libtorch's side: its fields, without headers that clash with libtorch's.
struct EagerCase {
  std::string model;
  std::string optimizer;
  std::int64_t batch = 1;
  std::vector<std::int64_t> sample;
  bool tokens = false;
  bool channels_last = false;
  bool on_gpu = false;
  const std::vector<std::uint8_t>* x = nullptr;  ///< the samples, concatenated; null: random numbers
  const std::vector<std::uint8_t>* y = nullptr;  ///< the samples' classes
};

/// For example "libtorch 2.11.0".
[[nodiscard]] std::string libtorch_name();
void set_libtorch_threads(int threads);
/// True if this libtorch has CUDA, and a GPU. Sets binary32 for all that follows (TF32 off) and lets cuDNN
/// try its algorithms.
[[nodiscard]] bool libtorch_has_gpu();
/// A training step of the case in eager libtorch, or of a TorchScript file: zero gradients, forward, cross
/// entropy, backward, fused optimiser; on a GPU it waits until all is done. Each step takes the next batch of
/// the data, which are in memory as floats.
[[nodiscard]] std::function<void()> eager_step(const EagerCase& of);

}  // namespace dgx::bench
