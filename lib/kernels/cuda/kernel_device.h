#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>

#include "column_sum.cuh"
#include "dgx/kernels/cuda/device.h"
#include "dot.cuh"
#include "finite.cuh"
#include "product.cuh"
#include "uniform.cuh"

namespace dgx::kernels::cuda {

/// A device's error: "NAME: WHAT", with the hint what to do when a device fails.
inline Error device_error(const DeviceInfo& info, const std::string& what) {
  return internal_error(
      (info.name.empty() ? "--device cuda" : info.name) + ": " + what,
      "everything written so far is intact: run the same command without --device cuda to continue");
}

/// The base of both devices: chooses kernel and geometry of each launch, and keeps the first error.
/// Self has
///   template <class... A> Status queue(const char* name, Grid grid, void (*kernel)(A...), A... arguments);
///   Status queue(const Generated& generated);
/// which are never called with an empty grid. A name is a literal: a recorded launch keeps its address.
template <class Self>
class KernelDevice : public Device {
 public:
  [[nodiscard]] const DeviceInfo& info() const final { return info_; }

  [[nodiscard]] Status launch(const Generated& generated) final {
    if (generated.blocks == 0) return {};
    DGX_CHECK(check_grid("generated kernel", generated.blocks));
    return static_cast<Self*>(this)->queue(generated);
  }
  [[nodiscard]] Status launch(const Product& product) final {
    return start_tiles("product", product, product_kernel(product));
  }
  [[nodiscard]] Status launch(const Dot& dot) final { return start_tiles("dot", dot, dot_kernel(dot)); }
  [[nodiscard]] Status launch(const ColumnSum& sum) final {
    DGX_CHECK(start("column sum", grid_of(sum), run_column_sum, sum));
    if (dot_groups(sum.rows) == 1) return {};
    return start("groups of a column sum", grid_of(sum.columns, 128), run_column_groups, sum);
  }
  [[nodiscard]] Status launch(const UniformNumbers& numbers) final {
    return start("uniform", grid_of(numbers.count, 256), run_uniform, numbers);
  }
  [[nodiscard]] Status launch(const FiniteCheck& check) final {
    constexpr std::int64_t kMostBlocks = 4096;  // each strides through the numbers
    Grid grid = grid_of(check.count, 256);
    grid.blocks = std::min(grid.blocks, kMostBlocks);
    return start("finite check", grid, run_finite_check, check);
  }

 protected:
  /// The device's first error, if it had one.
  [[nodiscard]] Status state() const {
    const std::lock_guard lock(mutex_);
    return error_ ? Status(*error_) : Status();
  }
  /// Returns the device's first error, which is this one if there was none.
  [[nodiscard]] Status fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = device_error(info_, what);
    return *error_;
  }
  [[nodiscard]] Error no_memory(std::int64_t size_bytes, std::int64_t free_bytes) const {
    return usage_error(info_.name + ": no " + std::to_string(size_bytes) + " bytes of memory are free, but " +
                           std::to_string(free_bytes),
                       "use a smaller batch, or --device cpu");
  }

  DeviceInfo info_;

 private:
  template <class P>
  Status start_tiles(const char* name, const P& p, void (*kernel)(P, bool)) {
    if (p.depth >= std::int64_t{1} << 31)
      return internal_error(std::string(name) + ": a depth of " + std::to_string(p.depth) +
                            " is more than a device takes");
    if ((p.form.piece != 0) != (p.pieces != nullptr))
      return internal_error(std::string(name) +
                            ": it is cut, and has no memory for its pieces, or the other way round");
    DGX_CHECK(start(name, grid_of_tiles(p), kernel, p, is_out_in_fours(p)));
    if (p.form.piece == 0) return {};
    return start("pieces of a product", grid_of(p.batch.count * p.rows * p.columns, 256), add_pieces<P>, p);
  }
  template <class... A>
  Status start(const char* name, Grid grid, void (*kernel)(A...), A... arguments) {
    if (grid.blocks == 0) return {};
    DGX_CHECK(check_grid(name, grid.blocks));
    return static_cast<Self*>(this)->queue(name, grid, kernel, arguments...);
  }
  static Status check_grid(const char* name, std::int64_t blocks) {
    if (blocks < std::int64_t{1} << 31) return {};
    return internal_error(std::string(name) + ": a grid of " + std::to_string(blocks) +
                          " blocks is more than a device takes");
  }

  mutable std::mutex mutex_;  // guards error_
  std::optional<Error> error_;
};

}  // namespace dgx::kernels::cuda
