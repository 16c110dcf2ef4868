#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dgx::bench {

/// A case as libtorch's side sees it; the fields of Case, without a header that libtorch's would meet.
struct EagerCase {
  std::string model;
  std::string optimizer;
  std::int64_t batch = 1;
  std::vector<std::int64_t> sample;
  bool tokens = false;
  bool channels_last = false;
  bool on_gpu = false;
};

/// "libtorch 2.11.0".
[[nodiscard]] std::string libtorch_name();
void set_libtorch_threads(int threads);
/// True if this libtorch has CUDA, and a GPU. From then on it computes in binary32 (TF32 off) and lets cuDNN try its algorithms.
[[nodiscard]] bool libtorch_has_gpu();
/// A training step of the case in eager libtorch, or of a TorchScript file: zero_grad, forward, cross entropy, backward, optimiser; on a GPU until all
/// of it is done.
[[nodiscard]] std::function<void()> eager_step(const EagerCase& of);

}  // namespace dgx::bench
