#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace dgx::bench {

/// A batch of products out = a · b in a GPU's memory, one after another without gaps; each operand is
/// row-major or, if transposed, column-major.
struct GpuProduct {
  std::int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  bool a_transposed = false, b_transposed = false;
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;
};

/// NVIDIA's cuBLAS, in binary32 or with TF32.
class Cublas {
 public:
  /// Opened by name, from the library path or CUDA's usual folder. nullopt, with the reason on standard
  /// error, if there is none.
  [[nodiscard]] static std::optional<Cublas> open();

  [[nodiscard]] std::string name() const;
  /// Queues the product: in binary32, or with factors cut to TF32 for the matrix units.
  void queue(const GpuProduct& product, bool tf32 = false) const;
  /// Waits for all queued work.
  void synchronize() const;

 private:
  void set_mode(int mode) const;

  void* library_ = nullptr;
  void* handle_ = nullptr;
  int (*wait_)() = nullptr;
  mutable int mode_ = -1;  ///< cuBLAS's, once one was set
};

}  // namespace dgx::bench
