#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dgx/core/host_device.h"
#include "dgx/core/result.h"
#include "dgx/kernels/cuda/forms.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels::cuda {

/// A device that computes the bits of kernels/ref: memory of its own, a queue of work, a compiler of the
/// kernels that are generated for a step, and one launch function for each form of kernel. No CUDA type
/// appears here: users of a Device need neither CUDA's headers nor its libraries. There are two devices: the
/// GPU (libdgx_cuda.so, device.cu), and the same kernels on the CPU, for tests (libdgx_cuda_emulated.so,
/// emulated/). Both are modules that are opened by name, never linked.
///
/// Launches and asynchronous copies are queued, and run in order. So an error may be returned by a later call
/// than the one that caused it. It is kInternal, names the call and the kernel, and is sticky: every later
/// call returns it, because the state of the device is then unknown. Nothing that was queued after it counts.

struct DeviceInfo {
  std::string name;               ///< "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;       ///< compute capability
  int driver = 0, runtime = 0;    ///< versions, as CUDA writes them: 13000 is 13.0
  std::int64_t memory_bytes = 0;  ///< total
  std::int64_t free_bytes = 0;    ///< when the device was opened
  bool emulated = false;
  /// Elementary functions avoid binary64, which is slow (kernels/function_pairs.h).
  bool functions_by_pairs = false;
};

// Descriptions of launches. Pointers are into the device's memory unless something else is said; strides
// count elements.

/// The most dimensions over which products and windows repeat.
inline constexpr std::size_t kBatchDimensions = 8;

/// A row-major batch: number n adds Σ index[d] · strides[map][d] to the place of a map.
struct Batch {
  std::int64_t count = 1;
  std::int32_t dimensions = 0;
  std::array<std::int64_t, kBatchDimensions> extents{};
  std::array<std::array<std::int64_t, kBatchDimensions>, 3> strides{};
};

/// Groups of 4,096 positions of a dot (dgx-numerics(7), "Folds"), at least one.
[[nodiscard]] DGX_HOST_DEVICE constexpr std::int64_t dot_groups(std::int64_t positions) {
  return positions == 0 ? 1 : (positions + kDotGroupPositions - 1) / kDotGroupPositions;
}

/// out[r, c] = dot over depth of a[r, k] · b[k, c] (dgx-numerics(7), "Folds"), NaN canonical. The output must
/// not overlap the sides. The depth must be below 2^31.
struct Product {
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t a_row = 0, a_depth = 0, b_depth = 0, b_column = 0;
  std::int64_t out_row = 0;  ///< columns are neighbours
  Batch batch;               ///< maps: a, b, out
  TileForm form;
  float* pieces = nullptr;  ///< room for piece_numbers() numbers if the form is cut, else null
};

/// A linear function of an index in a row-major shape: Σ index[d] · coefficients[d]. All numbers and sums are
/// below 2^30.
inline constexpr std::size_t kWalkDimensions = 4;
inline constexpr std::size_t kDotGuards = 3;
struct Walk {
  std::int32_t dimensions = 0;
  std::array<std::int32_t, kWalkDimensions> extents{};
  /// Element, then guards.
  std::array<std::array<std::int32_t, kWalkDimensions>, 1 + kDotGuards> coefficients{};
};

/// A bounds-checked coordinate (padding): what the line adds plus what the position adds, divided by
/// `divisor`. If the division is exact and the quotient in [0, size), it moves the element by `stride` times
/// the quotient; otherwise the element is outside. Whichever of lines and positions has fewer distinct values
/// supplies the taps: they are numbered, and DotSide::taps says what tap t adds. The other adds what its walk
/// gives.
struct DotGuard {
  std::int32_t divisor = 1, size = 0, stride = 0;
  std::int32_t first_tap = 0, tap_count = 0;  ///< its taps' range in DotSide::taps
};
/// One tap of a guard: what it adds to the guard's coordinate, and how far it moves the element.
struct DotTap {
  std::int32_t coordinate = 0, moves = 0;
};
/// The most taps of all guards together: each has a bit of a word.
inline constexpr std::size_t kDotTaps = 31;

/// One side of a Dot: finds the element for a line (a row or a column of the output) at a position of the
/// fold, or gives 0 where a coordinate is outside. One of its two walks, `lines` if lines_are_taps, gives the
/// tap of each guard, numbered from 0; the other gives the guard's coordinate.
struct DotSide {
  const float* from = nullptr;  ///< the value
  Walk lines, positions;
  std::array<std::int32_t, 1 + kDotGuards> base{};  ///< element and guards' coordinates at index 0
  std::int32_t guard_count = 0;
  bool lines_are_taps = false;  ///< lines, not positions, are the taps
  bool along_depth = false;     ///< neighbouring positions, not lines, are neighbours in memory
  std::array<DotGuard, kDotGuards> guards{};
  std::array<DotTap, kDotTaps> taps{};
};

/// out[r, c] = dot over positions of a(r, p) · b(c, p), as for Product: convolutions and their gradients, and
/// all else whose rows and columns each move one side alone.
struct Dot {
  DotSide a, b;  ///< a has no guards
  float* out = nullptr;
  Walk out_rows, out_columns;  ///< coefficients[0]: their offset in `out`
  std::int64_t rows = 0, columns = 0, depth = 0;
  Batch batch;
  TileForm form;
  float* pieces = nullptr;
};

/// out[c] = dot over the rows of 1 · x[r, c]. `groups` holds columns · dot_groups(rows) numbers if
/// dot_groups(rows) is above 1.
struct ColumnSum {
  const float* x = nullptr;
  float* out = nullptr;
  float* groups = nullptr;
  std::int64_t rows = 0, columns = 0, row_stride = 0;
};

/// out[e] = uniform(seed, stream, *step, e) (kernels/philox.h).
struct UniformNumbers {
  float* out = nullptr;
  std::int64_t count = 0;
  const std::int64_t* step = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< Stream::word()
};

/// Sets *not_finite to 1 if one of the numbers is infinite or NaN; never to 0.
struct FiniteCheck {
  const float* numbers = nullptr;
  std::int64_t count = 0;
  std::int32_t* not_finite = nullptr;
};

/// A kernel that compile() made, and the addresses that it takes.
struct Generated {
  std::int32_t kernel = -1;
  std::uint32_t threads = 0;  ///< threads per block, at most 1,024
  std::int64_t blocks = 0;
  std::vector<void*> addresses;
};

/// The interface of a device. All calls must come from one thread, except finish_download(). The destructor
/// waits for all queued work and frees all memory.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;

  /// Allocates memory of the device, 256-byte aligned, of at least one byte, with undefined content. kUsage,
  /// with both numbers, if less is free.
  [[nodiscard]] virtual Result<void*> allocate(std::int64_t size_bytes) = 0;
  /// Allocates pinned memory of the host: upload() from it is asynchronous, with no copy in between.
  /// kInternal.
  [[nodiscard]] virtual Result<void*> allocate_staging(std::int64_t size_bytes) = 0;

  /// Queues a copy from host memory. If `from` is staging memory it must stay unchanged until synchronize();
  /// other memory may be reused when this returns.
  [[nodiscard]] virtual Status upload(void* to, const void* from, std::int64_t size_bytes) = 0;
  /// Waits for all queued work, then copies to the host.
  [[nodiscard]] virtual Status download(void* to, const void* from, std::int64_t size_bytes) = 0;
  /// Begins a copy to staging memory. It runs after all that is queued, and concurrently with what is queued
  /// later, which must not write to `from` until finish_download(). Only one at a time.
  [[nodiscard]] virtual Status begin_download(void* to_staging, const void* from,
                                              std::int64_t size_bytes) = 0;
  /// Waits for what begin_download() began. A thread other than the device's may call it, even while that one
  /// is in another call.
  [[nodiscard]] virtual Status finish_download() = 0;
  /// Queues a copy within the device; the ranges must not overlap.
  [[nodiscard]] virtual Status copy(void* to, const void* from, std::int64_t size_bytes) = 0;
  /// Queues filling `size_bytes` bytes with zeros.
  [[nodiscard]] virtual Status clear(void* to, std::int64_t size_bytes) = 0;

  /// Compiles the `count` kernels that a text defines by DGX_KERNEL (kernels/cuda/generated.cuh, which it
  /// includes) under the names k0, k1, …. Returns the number of k0 for launch(); the others follow. They live
  /// as long as the device. Not while recording. Takes a tenth of a second or more. kInternal if the compiler
  /// refuses the text, with the beginning of its message.
  [[nodiscard]] virtual Result<std::int32_t> compile(const std::string& text, std::int32_t count) = 0;

  // Queue kernels. Empty launches are allowed.
  [[nodiscard]] virtual Status launch(const Generated& generated) = 0;
  [[nodiscard]] virtual Status launch(const Product& product) = 0;
  [[nodiscard]] virtual Status launch(const Dot& dot) = 0;
  [[nodiscard]] virtual Status launch(const ColumnSum& sum) = 0;
  [[nodiscard]] virtual Status launch(const UniformNumbers& numbers) = 0;
  [[nodiscard]] virtual Status launch(const FiniteCheck& check) = 0;

  /// From here to end_recording() launches, copy() and clear() are recorded instead of run. Nothing else may
  /// be called in between.
  [[nodiscard]] virtual Status begin_recording() = 0;
  /// Returns the number of the recording, for replay(). A recording lives as long as the device.
  [[nodiscard]] virtual Result<int> end_recording() = 0;
  /// Queues all that was recorded, at once.
  [[nodiscard]] virtual Status replay(int recording) = 0;

  /// Queues a reading of the device's clock. Not while recording.
  [[nodiscard]] virtual Status mark() = 0;
  /// Waits for all queued work. Returns the seconds from each mark to the next, for the marks since the last
  /// call.
  [[nodiscard]] virtual Result<std::vector<double>> marked_seconds() = 0;

  /// Waits for all queued work.
  [[nodiscard]] virtual Status synchronize() = 0;
};

/// The name under which a module exports its OpenDeviceFunction, which opens the device. kInternal, with a
/// hint, if there is no driver, or none that is new enough, or no device, or no NVRTC to compile with. The
/// message begins with "--device cuda: " then. `interface` is the caller's kDeviceInterface (interface.h,
/// made by CMake: a digest of this header and of those it rests on). A module built for another interface
/// returns false and touches nothing.
inline constexpr const char* kOpenDeviceSymbol = "dgx_open_cuda_device";
using OpenDeviceFunction = bool (*)(const char* interface, Result<std::unique_ptr<Device>>* out);

}  // namespace dgx::kernels::cuda
