#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dgx/exec/profile.h"
#include "dgx/kernels/compiled.h"
#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/cpu/window.h"
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
  std::int64_t out_row = 0;  ///< between rows of the output; columns are neighbours
  LoopNest batch;            ///< maps: a, b, out
  bool b_packed = false, out_packed = false;  ///< then they lie in strips, of the shape's depth and rows

  /// The same numbers as the transposed product: fma(a, b, c) is fma(b, a, c).
  [[nodiscard]] MatmulTask transposed() const;
};

/// A dot with one side read through windows: a convolution or its input's gradient, image by image.
struct WindowProductTask {
  kernels::ValueIndex out = 0, x = 0, weights = 0;
  std::int64_t x_base = 0, weights_base = 0;
  LoopNest batch;  ///< maps: x, weights, out
  kernels::cpu::WindowProduct product;
};

/// A dot over the places of windows: a convolution's weight gradient.
struct WindowGradientTask {
  kernels::ValueIndex out = 0, x = 0, other = 0;
  std::int64_t x_base = 0, other_base = 0;
  LoopNest batch;  ///< maps: x, other, out
  kernels::cpu::WindowGradient gradient;

  /// Groups of terms that each of `members` threads takes at most, which then reads no more than its share of the images; or nothing: they
  /// share planes, or batches.
  [[nodiscard]] std::optional<std::int64_t> groups_of(int members) const;
};

using WindowTask = std::variant<WindowProductTask, WindowGradientTask>;

/// A dot with one: sums of columns. The matrix is [rows, columns], columns neighbours.
struct ColumnSumTask {
  kernels::ValueIndex out = 0, x = 0;
  std::int64_t base = 0, rows = 0, columns = 0, row_stride = 0;
};

/// Fused maps. Of values in strips the program is that of one strip, all of which have the same form.
struct MapTask {
  std::vector<kernels::ValueIndex> members;
  StripProgram program;
  std::optional<StripForm> strips;
};

/// Maps that are all that reads a product in strips: they follow it block by block, while it is in the nearest caches, and the
/// product never lies in memory as a whole.
struct ProductMapTask {
  MatmulTask product;
  MapTask map;
};

/// sum, max or argmax whose operands a strip program gives.
struct FoldTask {
  enum class Along : std::uint8_t {
    kFold,     ///< an output's operands are a row, folded at once
    kOutputs,  ///< neighbouring outputs are a strip, folded position by position
    kColumns,  ///< operands of all positions and the few outputs that are neighbours are a matrix, folded down its columns
  };
  kernels::ValueIndex out = 0;
  kernels::Kind kind = kernels::Kind::kSum;
  std::int64_t count = 0;   ///< output elements
  std::int64_t length = 0;  ///< positions of the fold
  Along along = Along::kFold;
  StripProgram program;
  std::optional<std::int64_t> row_stride;  ///< operands lie in memory as they are: rows, or matrices, at this distance
  std::int64_t columns = 1;  ///< kColumns: outputs of a matrix; `program` runs along the matrix, its outer dimensions are matrices

  /// That a thread needs to run it.
  [[nodiscard]] std::int64_t floats() const;
  /// The register of operands that lie in memory.
  [[nodiscard]] const StripRegister& operands() const { return program.registers[static_cast<std::size_t>(program.result)]; }
};

/// A chain, position by position along strips of outputs.
struct ChainTask {
  /// Where `when` asks that a number which depends on the position alone be an index of the output, only the positions
  /// that name it need a visit.
  struct Key {
    kernels::ValueIndex value = 0;
    DType dtype = DType::kI64;
    std::int64_t base = 0;
    LoopNest positions;           ///< one map: the value's elements by position
    std::int64_t extent = 0;      ///< of the output's dimension
    std::int64_t stride = 0;      ///< elements from one index of it to the next
  };
  kernels::ValueIndex out = 0;
  DType dtype = DType::kF32;
  std::int64_t length = 0;
  StripProgram init, body;
  std::optional<Key> key;
};

/// Several values in one, piece by piece (concatenation.h): each copies its part.
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

/// Maps, sums and maxima about the same rows, in order (device_rows.h).
struct RowsTask {
  std::vector<kernels::ValueIndex> members;
  std::int64_t rows = 0, columns = 0;  ///< a member has a number for every row, or for every row and column; a fold is of a row's columns
};

/// Anything else, element by element as kernels/ref defines it.
struct GenericTask {
  kernels::ValueIndex out = 0;
  std::int64_t count = 0;
};

struct Task {
  std::variant<MatmulTask, ColumnSumTask, MapTask, FoldTask, GenericTask, ProductMapTask, WindowProductTask,
               WindowGradientTask, ChainTask, ConcatenationTask, RowsTask>
      work = GenericTask{};
  double cost = 0;                            ///< rough cycles of one thread
  std::vector<kernels::ValueIndex> reads;
  std::vector<kernels::ValueIndex> writes;    ///< values that lie in memory afterwards
};

/// Tasks [begin, end). A serial section is run by member 0 alone; a parallel one is one task that all members share, or sliced tasks.
/// Between sections there is a barrier.
struct Section {
  std::size_t begin = 0, end = 0;
  bool serial = false;
  std::optional<std::size_t> sliced;  ///< in Plan::sliced: all members share its slices
};

/// Tasks [begin, end) that run slice by slice (slices.h): outputs lie in `slices` equal parts, of which a thread takes `chunk` neighbours
/// through all tasks at once. Values `inside` are read by these tasks alone and have memory for one chunk a thread.
struct SlicedTasks {
  std::size_t begin = 0, end = 0;
  std::int64_t slices = 1, chunk = 1;
  std::vector<kernels::ValueIndex> inside;
};

/// Where a value lies while a step runs.
struct Placement {
  enum class Where : std::uint8_t {
    kNowhere,  ///< in registers only
    kInput,    ///< a state entry, batch field, schedule or constant: memory of its own
    kArena,    ///< at `offset` of the arena
    kSlice,    ///< at `offset` of what each thread has for slices
    kInPlace,  ///< over the state entry `entry` that it becomes
    kNext,     ///< in a buffer that is exchanged with entry `entry`'s when the step ends
  };
  Where where = Where::kNowhere;
  std::int64_t offset = 0;
  std::size_t entry = 0;
};

enum class Fusion { kFused, kEveryValue, kDevice, kGenerated };

/// A program analysed once: what runs in which order, and where every value lies. kEveryValue keeps one task a value, in
/// program order, and writes no state in place: for traces, faults and disputes. kDevice fuses maps and lets values share memory as
/// kFused does, but has what a device runs (device_executor.h): products, maps and what is made element by element, all in rows, nothing in
/// slices. kGenerated: the same for a device whose kernels are generated, which has tasks of rows.
struct Plan {
  std::vector<kernels::CompiledPrimitive> compiled;  ///< by value; inputs are left empty
  std::vector<Task> tasks;
  std::vector<Section> sections;
  std::vector<SlicedTasks> sliced;
  std::vector<Placement> placements;                 ///< by value
  std::vector<Layout> layouts;                       ///< by value
  std::vector<kernels::ValueIndex> entries;          ///< the state inputs, by entry name
  std::int64_t arena_bytes = 0;
  std::int64_t slice_bytes = 0;                      ///< that a thread needs for slices
  std::size_t most_registers = 0;
  std::int64_t longest_fold = 0;                     ///< floats
  std::int64_t window_floats = 0;                    ///< that a thread's share of the largest window product takes
};

/// The maps of a task that has some, or null.
[[nodiscard]] const MapTask* map_of(const Task& task);

/// `keep`: values that must be in memory when the step ends, besides the entries' next values.
[[nodiscard]] Result<Plan> make_plan(const program::Program& program, Fusion fusion, int threads,
                                     const std::vector<kernels::ValueIndex>& keep);

/// Bytes that a plan takes beside its inputs: the values between them, and what `threads` threads work in.
[[nodiscard]] std::int64_t planned_bytes(const Plan& plan, int threads);

/// Bytes of a value.
[[nodiscard]] std::int64_t bytes_of(const kernels::Primitive& value);

/// "product", "maps", …; and its size, in parentheses, or nothing.
[[nodiscard]] std::string kind_of(const Task& task);
[[nodiscard]] std::string form_of(const Task& task);

/// `seconds`: what each task has taken; nothing gives nothing.
[[nodiscard]] std::vector<OperationProfile> operation_profiles(const Plan& plan, const program::Program& program, std::span<const double> seconds);

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

}  // namespace dgx::exec
