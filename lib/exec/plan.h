#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "dgx/exec/profile.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/cpu/window.h"
#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/program/program.h"
#include "layouts.h"
#include "strip_group.h"

namespace dgx::exec {

/// A dot recognised as a (batched, strided) matrix product.
struct MatmulTask {
  kernels::ValueIndex out = 0, a = 0, b = 0;
  std::int64_t a_base = 0, b_base = 0;
  kernels::cpu::MatmulShape shape;
  std::int64_t a_row = 0, a_depth = 0, b_depth = 0, b_column = 0;
  std::int64_t out_row = 0;  ///< between rows of the output; columns are contiguous
  LoopNest batch;            ///< maps: a, b, out
  /// Stored in strips, of depth shape.depth (b) and shape.rows (out).
  bool b_packed = false, out_packed = false;

  /// The transposed product, with a and b exchanged. The bits are the same: fma(a, b, c) is fma(b, a, c).
  [[nodiscard]] MatmulTask transposed() const;
};

/// A dot that reads one side through sliding windows: a convolution, or its gradient with respect to its
/// input. Runs image by image.
struct WindowProductTask {
  kernels::ValueIndex out = 0, x = 0, weights = 0;
  std::int64_t x_base = 0, weights_base = 0;
  LoopNest batch;  ///< maps: x, weights, out
  kernels::cpu::WindowProduct product;
};

/// A dot that folds over window positions: a convolution's weight gradient.
struct WindowGradientTask {
  kernels::ValueIndex out = 0, x = 0, other = 0;
  std::int64_t x_base = 0, other_base = 0;
  LoopNest batch;  ///< maps: x, other, out
  kernels::cpu::WindowGradient gradient;

  /// If `members` threads should share the groups of terms, so that each reads only its share of the images:
  /// the most groups that one thread takes. Nullopt if they share planes or batches instead.
  [[nodiscard]] std::optional<std::int64_t> groups_of(int members) const;
};

using WindowTask = std::variant<WindowProductTask, WindowGradientTask>;

/// A dot with the constant 1: column sums of a [rows, columns] matrix whose rows are contiguous.
struct ColumnSumTask {
  kernels::ValueIndex out = 0, x = 0;
  std::int64_t base = 0, rows = 0, columns = 0, row_stride = 0;
};

/// Fused maps. If the values lie in strips, `program` covers one strip; all strips have the same form.
struct MapTask {
  std::vector<kernels::ValueIndex> members;
  StripProgram program;
  std::optional<StripForm> strips;
};

/// A product in strips and the maps that are its only readers. They follow it block by block, while a block
/// is in the nearest caches; the product as a whole is never in memory.
struct ProductMapTask {
  MatmulTask product;
  MapTask map;
};

/// A sum, max or argmax whose operands a strip program computes.
struct FoldTask {
  enum class Along : std::uint8_t {
    kFold,     ///< strips run along the fold: an output's operands form a row, folded at once
    kOutputs,  ///< strips run along neighbouring outputs, folded position by position
    /// Operands of all positions × a few contiguous outputs form a matrix, folded down its columns.
    kColumns,
  };
  kernels::ValueIndex out = 0;
  kernels::Kind kind = kernels::Kind::kSum;
  std::int64_t count = 0;   ///< output elements
  std::int64_t length = 0;  ///< positions of the fold
  Along along = Along::kFold;
  StripProgram program;
  /// Set if operands are read in place: elements from row (matrix) to row.
  std::optional<std::int64_t> row_stride;
  /// kColumns: outputs of a matrix; `program` runs along it, outer dimensions are matrices.
  std::int64_t columns = 1;

  /// Scratch floats that one thread needs to run this fold.
  [[nodiscard]] std::int64_t floats() const;
  /// The register of the operands. kColumns has none unless row_stride is set: its program adds them up.
  [[nodiscard]] const StripRegister& operands() const {
    return program.registers[static_cast<std::size_t>(program.result)];
  }
};

/// A chain, run position by position over strips of outputs.
struct ChainTask {
  /// Set if `when` requires a number that depends on the position alone (the key) to equal one of the
  /// output's indices: an output then visits only the positions whose key is that index.
  struct Key {
    kernels::ValueIndex value = 0;
    DType dtype = DType::kI64;
    std::int64_t base = 0;
    LoopNest positions;       ///< one map: from the position to the value's element
    std::int64_t extent = 0;  ///< of the output's dimension that the key is compared with
    std::int64_t stride = 0;  ///< of that dimension, in output elements
  };
  kernels::ValueIndex out = 0;
  DType dtype = DType::kF32;
  std::int64_t length = 0;
  StripProgram init, body;
  std::optional<Key> key;
};

/// Several values concatenated into one (concatenation.h): each piece is copied to its part.
struct ConcatenationTask {
  struct Piece {
    kernels::ValueIndex from = 0;
    std::int64_t from_base = 0, to_base = 0;  ///< elements
    LoopNest nest;                            ///< maps: from, to
  };
  kernels::ValueIndex out = 0;
  DType dtype = DType::kF32;
  std::vector<Piece> pieces;
};

/// Maps, sums and maxima over the same rows, in execution order (device_rows.h).
struct RowsTask {
  std::vector<kernels::ValueIndex> members;
  /// A member has a number per row, or per row and column; folds run along a row.
  std::int64_t rows = 0, columns = 0;
};

/// A product that a device makes in tiles.
struct TiledProductTask {
  MatmulTask product;
  kernels::cuda::TileForm form;
};

/// A dot of another form that a device makes in tiles: `dot` without the values' addresses.
struct TiledDotTask {
  kernels::ValueIndex out = 0, a = 0, b = 0;
  kernels::cuda::Dot dot;
};

/// A sum, max or argmax of many positions that teams of 32 threads of a device fold, in the lanes of
/// dgx-numerics(7), "Folds". A team folds 2,048 positions of an output into one part. Where an output has
/// more, its parts are the items of another level, until there is one.
struct TeamFoldTask {
  kernels::ValueIndex out = 0;
  std::int64_t count = 0;   ///< output elements
  std::int64_t length = 0;  ///< positions of the fold
  /// Neighbouring outputs, not positions, are neighbours in memory: 32 adjacent threads have 32 outputs.
  bool across = false;

  /// Parts of an output after a level of `items` items.
  [[nodiscard]] static constexpr std::int64_t parts_of(std::int64_t items) {
    return (items + kernels::kSumBlock - 1) / kernels::kSumBlock;
  }
  /// Bytes of the parts, at most 16 each, that all levels but the last leave to the next.
  [[nodiscard]] std::int64_t scratch_bytes() const;
};

/// A chain that acts only at the positions whose key is the output's index. 32 threads of a device, whose
/// outputs share that index, look at 32 positions at a time.
struct KeyedChainTask {
  kernels::ValueIndex out = 0;
  ChainTask::Key key;
};

/// Any other value, element by element as kernels/ref defines it.
struct GenericTask {
  kernels::ValueIndex out = 0;
  std::int64_t count = 0;
};

/// The forms of a task. Both backends have ColumnSumTask, MapTask and GenericTask; the last five alternatives
/// are a device's alone.
using Work = std::variant<MatmulTask, ColumnSumTask, MapTask, FoldTask, GenericTask, ProductMapTask,
                          WindowProductTask, WindowGradientTask, ChainTask, ConcatenationTask, RowsTask,
                          TiledProductTask, TiledDotTask, TeamFoldTask, KeyedChainTask>;

template <class T>
inline constexpr bool kIsOfDevices =
    std::is_same_v<T, RowsTask> || std::is_same_v<T, TiledProductTask> || std::is_same_v<T, TiledDotTask> ||
    std::is_same_v<T, TeamFoldTask> || std::is_same_v<T, KeyedChainTask>;

struct Task {
  Work work = GenericTask{};
  double cost = 0;  ///< estimated cycles on one thread
  std::vector<kernels::ValueIndex> reads;
  std::vector<kernels::ValueIndex> writes;  ///< values that it stores in memory
};

/// Tasks [begin, end), with a barrier after them. Member 0 runs a serial section alone; a parallel section is
/// one task, or one SlicedTasks, that all members share.
struct Section {
  std::size_t begin = 0, end = 0;
  bool serial = false;
  std::optional<std::size_t> sliced;  ///< index into Plan::sliced, if the tasks run slice by slice
};

/// Tasks [begin, end) that run slice by slice (slices.h). Every output consists of `slices` equal parts; a
/// thread takes `chunk` neighbouring ones at a time through all the tasks. Only these tasks read the values
/// in `inside`, so each thread has memory for just one chunk of them.
struct SlicedTasks {
  std::size_t begin = 0, end = 0;
  std::int64_t slices = 1, chunk = 1;
  std::vector<kernels::ValueIndex> inside;
};

/// The place of a value while a step runs.
struct Placement {
  enum class Where : std::uint8_t {
    kNowhere,  ///< in registers only
    kInput,    ///< a state entry, batch field, schedule or constant: memory of its own
    kArena,    ///< at `offset` of the arena
    kSlice,    ///< at `offset` of each thread's slice memory
    kInPlace,  ///< over the state entry `entry`, whose next value it is
    kNext,     ///< in a second buffer, exchanged with entry `entry`'s when the step ends
  };
  Where where = Where::kNowhere;
  std::int64_t offset = 0;
  std::size_t entry = 0;
};

/// kFused fuses maps, shares memory between values and updates state in place. kEveryValue keeps one task per
/// value, in program order, and writes no state in place: for traces, faults and disputes.
enum class Fusion : std::uint8_t { kFused, kEveryValue };

/// The processor that a plan is for: the CPU, or a device (kernels/cuda/device.h).
enum class Backend : std::uint8_t { kCpu, kDevice };

/// An analysed program: its tasks in execution order, and the place of every value.
struct Plan {
  std::vector<kernels::CompiledPrimitive> compiled;  ///< by value; inputs are left empty
  std::vector<Task> tasks;
  std::vector<Section> sections;
  std::vector<SlicedTasks> sliced;
  std::vector<Placement> placements;         ///< by value
  std::vector<Layout> layouts;               ///< by value
  std::vector<kernels::ValueIndex> entries;  ///< the state inputs, in order of entry name
  std::int64_t arena_bytes = 0;
  std::int64_t slice_bytes = 0;  ///< slice memory of one thread
  std::size_t most_registers = 0;
  std::int64_t longest_fold = 0;   ///< floats of fold scratch of one thread
  std::int64_t window_floats = 0;  ///< scratch of one thread for its share of a window task
};

/// The maps of a MapTask or ProductMapTask, or null.
[[nodiscard]] const MapTask* map_of(const Task& task);

/// Plans a step on the CPU. `keep`: values that must be in memory when it ends, besides the entries' next
/// values.
[[nodiscard]] Result<Plan> make_plan(const program::Program& program, Fusion fusion, int threads,
                                     const std::vector<kernels::ValueIndex>& keep);
/// Plans a fused step on a device (device_executor.h), of nothing but what that runs: products, column sums,
/// maps, rows, and values alone. All values lie in rows, none in slices.
[[nodiscard]] Result<Plan> make_device_plan(const program::Program& program);

/// Bytes that a plan needs besides its inputs: intermediate values, and the scratch of `threads` threads.
[[nodiscard]] std::int64_t planned_bytes(const Plan& plan, int threads);

/// Bytes of a value in rows.
[[nodiscard]] std::int64_t bytes_of(const kernels::Primitive& value);

/// kind_of(): "product", "maps", …. form_of(): the size in parentheses, after the values of maps; or "".
[[nodiscard]] std::string kind_of(const Task& task);
[[nodiscard]] std::string form_of(const Task& task);

/// One profile per task. `seconds`: the time that each task has taken; if empty, so is the result.
[[nodiscard]] std::vector<OperationProfile> operation_profiles(const Plan& plan,
                                                               const program::Program& program,
                                                               std::span<const double> seconds);

/// One line per task.
[[nodiscard]] std::string explain(const Plan& plan, const program::Program& program);

// Recognisers: nullopt when the primitive has another form.
[[nodiscard]] std::optional<MatmulTask> recognise_matmul(kernels::ValueIndex value,
                                                         const kernels::CompiledPrimitive& primitive,
                                                         const std::vector<LinearAccess>& accesses);
[[nodiscard]] std::optional<ColumnSumTask> recognise_column_sum(const program::Program& program,
                                                                const MatmulTask& matmul);
[[nodiscard]] std::optional<WindowTask> recognise_windows(kernels::ValueIndex value,
                                                          const kernels::CompiledPrimitive& primitive);
[[nodiscard]] std::optional<FoldTask> recognise_fold(kernels::ValueIndex value,
                                                     const kernels::CompiledPrimitive& primitive,
                                                     const std::vector<StripAccess>& accesses);
[[nodiscard]] std::optional<ChainTask> recognise_chain(kernels::ValueIndex value,
                                                       const kernels::CompiledPrimitive& primitive,
                                                       const std::vector<StripAccess>& accesses);
[[nodiscard]] std::optional<ChainTask::Key> recognise_key(const kernels::CompiledPrimitive& primitive,
                                                          const std::vector<StripAccess>& accesses);

}  // namespace dgx::exec
