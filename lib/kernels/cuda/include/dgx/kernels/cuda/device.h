#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dgx/core/host_device.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cuda/forms.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels::cuda {

/// A device that computes the bits of kernels/ref: memory of its own, a queue of work, and one launch function for each form
/// of kernel. No type of CUDA's is in here: who has a Device needs neither its headers nor its libraries. There are two: the GPU
/// (libdgx_cuda.so, device.cu), and the same kernels on the CPU, for tests (libdgx_cuda_emulated.so, emulated/). Both are modules
/// that are opened by name and linked by nobody.
///
/// Launches and asynchronous copies are queued, and run in order. So an error may be told by a later call than the one it belongs to: it
/// is kInternal, names the call and the kernel, and stays: every later call returns it, for the device is in no known state then. Nothing that
/// was queued behind it counts.

struct DeviceInfo {
  std::string name;               ///< "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;       ///< compute capability
  int driver = 0, runtime = 0;    ///< versions, as CUDA writes them: 13000 is 13.0
  std::int64_t memory_bytes = 0;  ///< in all
  std::int64_t free_bytes = 0;    ///< when the device was opened, without what its kernels themselves take
  bool emulated = false;
  bool functions_by_pairs = false;  ///< elementary functions without binary64, where that is slow (kernels/function_pairs.h)
  std::string no_compiler;        ///< why compile() cannot be used; empty: it can
};

// What a launch says. Pointers are into the device's memory but where something else is said; strides count elements.

/// An access of an element program's member.
struct Binding {
  const void* data = nullptr;  ///< the value
  std::int32_t member = -1;    ///< ≥ 0: instead, what that earlier member made at the same element
  DType dtype = DType::kF32;
};

/// One value of an element program.
struct ElementMember {
  const std::uint8_t* primitive = nullptr;  ///< flattened (kernels/primitive_view.h)
  const Binding* bindings = nullptr;        ///< one an access
  void* out = nullptr;                      ///< null: the value lies in no memory
  std::int32_t* not_finite = nullptr;       ///< set to 1 if an f32 element is infinite or NaN; may be null
};

/// At most so many members.
inline constexpr std::int32_t kMostMembers = 24;

/// Values of one count of elements, each element made by one thread as kernels/ref defines it, member after member: any primitive as
/// the only member, or fused maps. Everything is read before anything is written, so a member may lie where another one reads, if that
/// one reads no other elements there than those that the same thread writes.
struct ElementProgram {
  const ElementMember* members = nullptr;
  std::int32_t member_count = 0;
  std::int32_t most_steps = 0;  ///< of `do` or `when` of a member
  std::int32_t sum_levels = 1;  ///< so that no sum has more than 2,048 to this power positions
  std::int64_t count = 0;
};

/// Where a number of a map program comes from.
enum class MapSource : std::uint8_t {
  kReal,     ///< an f32 value, to a real register
  kInteger,  ///< an i64 value
  kByte,     ///< a u8 value, to an integer register
  kPlace,    ///< the place itself: an index, or an integer literal
  kLiteral,  ///< `literal`, to a real register
};

inline constexpr std::size_t kMapDimensions = 8;
inline constexpr std::size_t kMapReals = 40;     ///< real registers
inline constexpr std::size_t kMapIntegers = 16;  ///< integer registers

struct MapLoad {
  MapSource source = MapSource::kReal;
  float literal = 0;
  const void* data = nullptr;
  std::int64_t base = 0;  ///< the place: base + Σ strides[d] · index[d]
  std::array<std::int64_t, kMapDimensions> strides{};
};

/// What an operation does; `op` says the rest. Comparisons give 0 or 1 in an integer register.
enum class MapForm : std::uint8_t {
  kLoad,  ///< in[0]: the number of the load
  kReal, kInteger, kCompareReal, kCompareInteger, kSelectReal, kSelectInteger, kFloatOfInteger, kIntegerOfFloat, kByteOfInteger,
};
struct MapOperation {
  MapForm form = MapForm::kLoad;
  ScalarOp op = ScalarOp::kAdd;
  std::uint8_t out = 0;
  std::array<std::uint8_t, 3> in{};
};

struct MapStore {
  void* out = nullptr;                 ///< elements in row-major order
  std::int32_t* not_finite = nullptr;  ///< as in ElementMember
  DType dtype = DType::kF32;
  std::uint8_t in = 0;  ///< a register of the value's type; of a u8 value it holds 0 to 255
};

/// Fused maps whose accesses are all linear, over a nest of dimensions (at least one). Reads and writes as ElementProgram does.
struct MapProgram {
  const MapLoad* loads = nullptr;
  const MapOperation* operations = nullptr;
  const MapStore* stores = nullptr;
  std::int32_t operation_count = 0;
  std::int32_t store_count = 0;
  std::int32_t dimensions = 1;
  std::int64_t count = 0;
  std::array<std::int64_t, kMapDimensions> extents{};
};

/// Up to so many dimensions over which products and windows repeat.
inline constexpr std::size_t kBatchDimensions = 8;

/// Number n of a row-major batch adds Σ index[d] · strides[map][d] to the place of a map.
struct Batch {
  std::int64_t count = 1;
  std::int32_t dimensions = 0;
  std::array<std::int64_t, kBatchDimensions> extents{};
  std::array<std::array<std::int64_t, kBatchDimensions>, 3> strides{};
};

/// Groups of 4,096 positions of a dot (dgx-numerics(7), "Folds"), at least one.
[[nodiscard]] DGX_HOST_DEVICE constexpr std::int64_t dot_groups(std::int64_t positions) {
  constexpr std::int64_t kGroup = kDotBlock * kDotGroup;
  return positions == 0 ? 1 : (positions + kGroup - 1) / kGroup;
}

/// out[r, c] = dot over depth of a[r, k] · b[k, c] (dgx-numerics(7), "Folds"), NaN canonical. The output must not overlap the sides. A
/// depth is below 2^31.
struct Product {
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t a_row = 0, a_depth = 0, b_depth = 0, b_column = 0;
  std::int64_t out_row = 0;  ///< columns are neighbours
  Batch batch;               ///< maps: a, b, out
  TileForm form;
  float* pieces = nullptr;  ///< of piece_numbers() numbers if the form is cut, else null
};

/// What is left of some positions of a fold: a sum, or the best number and its position.
struct FoldPart {
  Slot value;
  std::int64_t where;
};

/// A sum, max or argmax of many positions, by 32 threads for every 2,048 of them. `parts` holds fold_parts() of them; null is right for 0.
struct Fold {
  ElementMember member;
  Kind kind = Kind::kSum;
  NumberType type = NumberType::kFloat;  ///< of what is folded
  DType dtype = DType::kF32;             ///< of the value
  std::int64_t count = 0;                ///< outputs
  std::int64_t fold_count = 0;           ///< positions, at least 1
  FoldPart start{};                      ///< what a fold starts from
  FoldPart* parts = nullptr;
};

/// Blocks of so many items of a fold.
[[nodiscard]] DGX_HOST_DEVICE constexpr std::int64_t fold_blocks(std::int64_t items) { return (items + kSumBlock - 1) / kSumBlock; }
/// Parts that a fold leaves on its way, level after level.
[[nodiscard]] constexpr std::int64_t fold_parts(std::int64_t count, std::int64_t fold_count) {
  std::int64_t parts = 0;
  for (std::int64_t items = fold_blocks(fold_count); items > 1; items = fold_blocks(items)) parts += count * items;
  return parts;
}

/// How an index in a row-major shape moves through something: Σ index[d] · coefficients[d]. All numbers and sums are below 2^30.
inline constexpr std::size_t kWalkDimensions = 4;
inline constexpr std::size_t kDotGuards = 3;
struct Walk {
  std::int32_t dimensions = 0;
  std::array<std::int32_t, kWalkDimensions> extents{};
  std::array<std::array<std::int32_t, kWalkDimensions>, 1 + kDotGuards> coefficients{};  ///< of DotSide's element, of its guards
};

/// A coordinate that may lie outside: what lines add and what positions add, divided by `divisor`; it must leave no remainder and be in
/// [0, size), and moves the element by `stride` then. Of lines and positions those with fewer different numbers are its taps, numbered;
/// DotSide::taps says what tap t adds. The others add what their walk gives.
struct DotGuard {
  std::int32_t divisor = 1, size = 0, stride = 0;
  std::int32_t first_tap = 0, tap_count = 0;  ///< in DotSide::taps
};
/// Where its tap is added, this moves the element by `moves` besides.
struct DotTap {
  std::int32_t coordinate = 0, moves = 0;
};
/// Of all guards together: each has a bit.
inline constexpr std::size_t kDotTaps = 31;

/// One side of a Dot: which number is that of a line (a row or a column of the output) at a position of the fold; 0 where a coordinate lies
/// outside. The walk of the taps gives a guard's tap, numbered from 0; that of the others its coordinate.
struct DotSide {
  const float* from = nullptr;  ///< the value
  Walk lines, positions;
  std::array<std::int32_t, 1 + kDotGuards> base{};  ///< of the element, of guards' coordinates, where all indices are 0
  std::int32_t guard_count = 0;
  bool lines_are_taps = false;  ///< lines, not positions, are the taps
  bool along_depth = false;     ///< neighbouring positions, not lines, are neighbours in memory
  std::array<DotGuard, kDotGuards> guards{};
  std::array<DotTap, kDotTaps> taps{};
};

/// out[r, c] = dot over positions of a(r, p) · b(c, p), as of Product: convolutions and their gradients, and all else whose sides have lines of their own.
struct Dot {
  DotSide a, b;  ///< a has no guards
  float* out = nullptr;
  Walk out_rows, out_columns;  ///< coefficients[0]: where they lie
  std::int64_t rows = 0, columns = 0, depth = 0;
  Batch batch;
  TileForm form;
  float* pieces = nullptr;
};

/// out[c] = dot over the rows of 1 · x[r, c]. `groups` holds columns · dot_groups(rows) numbers if those are several.
struct ColumnSum {
  const float* x = nullptr;
  float* out = nullptr;
  float* groups = nullptr;
  std::int64_t rows = 0, columns = 0, row_stride = 0;
};

/// A chain, an output a thread, which does something only at positions p where keys[base + Σ strides · position] is the output's index of one
/// dimension: e / index_stride mod index_extent. At all others `when` is 0 for certain.
struct KeyedChain {
  ElementMember member;
  std::int64_t count = 0, fold_count = 0;
  const void* keys = nullptr;
  DType dtype = DType::kI64;  ///< of the keys: i64 or u8
  std::int32_t dimensions = 1;
  std::int64_t base = 0;
  std::array<std::int64_t, kMapDimensions> extents{}, strides{};
  std::int64_t index_stride = 1, index_extent = 1;
};

/// out[e] = uniform(seed, stream, *step, e) (kernels/philox.h).
struct UniformNumbers {
  float* out = nullptr;
  std::int64_t count = 0;
  const std::int64_t* step = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< Stream::word()
};

/// *not_finite = 1 if one of the numbers is infinite or NaN.
struct FiniteCheck {
  const float* numbers = nullptr;
  std::int64_t count = 0;
  std::int32_t* not_finite = nullptr;
};

/// A kernel that compile() made, and the addresses that it takes.
struct Generated {
  std::int32_t kernel = -1;
  std::uint32_t threads = 0;  ///< of a block, at most 1,024
  std::int64_t blocks = 0;
  std::vector<void*> addresses;
};

/// Used by one thread, but for finish_download(). Destroyed, it waits for what is queued and gives back all memory.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;

  /// Memory of the device, 256-byte aligned, of at least one byte; its content is anything. kUsage, with both numbers, if it has not so much.
  [[nodiscard]] virtual Result<void*> allocate(std::int64_t size_bytes) = 0;
  /// Memory of the host that upload() takes its time from without a copy on the way. kInternal.
  [[nodiscard]] virtual Result<void*> allocate_staging(std::int64_t size_bytes) = 0;

  /// Queues a copy. `from` is the host's: if it is staging memory it must stay as it is until synchronize(); other memory is free again
  /// when this returns.
  [[nodiscard]] virtual Status upload(void* to, const void* from, std::int64_t size_bytes) = 0;
  /// Waits for what is queued, and copies to the host.
  [[nodiscard]] virtual Status download(void* to, const void* from, std::int64_t size_bytes) = 0;
  /// Begins a copy to staging memory that comes after all that is queued, and beside what is queued later, which must not write to `from` until
  /// finish_download(). There is one at a time.
  [[nodiscard]] virtual Status begin_download(void* to_staging, const void* from, std::int64_t size_bytes) = 0;
  /// Waits for what begin_download() began. Another thread than the device's may call it, also while that one is in another call.
  [[nodiscard]] virtual Status finish_download() = 0;
  /// Queues a copy from one place of the device to another; they must not overlap.
  [[nodiscard]] virtual Status copy(void* to, const void* from, std::int64_t size_bytes) = 0;
  /// Queues bytes of zero.
  [[nodiscard]] virtual Status clear(void* to, std::int64_t size_bytes) = 0;

  /// Compiles kernels that a text defines by DGX_KERNEL (kernels/cuda/generated.cuh, which it includes) under the names k0, k1, …: `count` of them.
  /// Returns the number of k0 for launch(); the others follow. They live as long as the device. Not while recording. Costs a tenth of a second and
  /// more. kInternal if the compiler refuses the text, with what it says first, or where info().no_compiler is not empty.
  [[nodiscard]] virtual Result<std::int32_t> compile(const std::string& text, std::int32_t count) = 0;

  // Queue kernels. Launches of nothing are allowed.
  [[nodiscard]] virtual Status launch(const Generated& generated) = 0;
  [[nodiscard]] virtual Status launch(const ElementProgram& program) = 0;
  [[nodiscard]] virtual Status launch(const MapProgram& program) = 0;
  [[nodiscard]] virtual Status launch(const Product& product) = 0;
  [[nodiscard]] virtual Status launch(const Dot& dot) = 0;
  [[nodiscard]] virtual Status launch(const Fold& fold) = 0;
  [[nodiscard]] virtual Status launch(const ColumnSum& sum) = 0;
  [[nodiscard]] virtual Status launch(const KeyedChain& chain) = 0;
  [[nodiscard]] virtual Status launch(const UniformNumbers& numbers) = 0;
  [[nodiscard]] virtual Status launch(const FiniteCheck& check) = 0;

  /// From here to end_recording() launches, copy() and clear() are noted and not run. Nothing else may be called between.
  [[nodiscard]] virtual Status begin_recording() = 0;
  /// The number by which replay() knows what was noted. It lives as long as the device.
  [[nodiscard]] virtual Result<int> end_recording() = 0;
  /// Queues all that was noted, at once.
  [[nodiscard]] virtual Status replay(int recording) = 0;

  /// Queues a reading of the device's clock. Not while recording.
  [[nodiscard]] virtual Status mark() = 0;
  /// Waits for what is queued. The seconds from each mark to the next of those since the last call.
  [[nodiscard]] virtual Result<std::vector<double>> marked_seconds() = 0;

  /// Waits for what is queued.
  [[nodiscard]] virtual Status synchronize() = 0;
};

/// What a module exports, under this name: opens the device. kInternal, with a hint, if there is no driver, or none that is new
/// enough, or no device. `interface` is the caller's kDeviceInterface (interface.h, made by CMake: a digest of this header and of those it
/// rests on). A module of another interface returns false and touches nothing.
inline constexpr const char* kOpenDeviceSymbol = "dgx_open_cuda_device";
using OpenDeviceFunction = bool (*)(const char* interface, Result<std::unique_ptr<Device>>* out);

}  // namespace dgx::kernels::cuda
