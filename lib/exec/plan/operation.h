#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cpu/strip_group.h"
#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/cpu/window.h"
#include "dgx/kernels/cuda/device.h"
#include "dgx/kernels/fold_order.h"
#include "plan/layouts.h"

// The operations of a plan. Each form says how some values of the step program are made. Both backends have
// the first three; then come the CPU's and the devices' own.
namespace dgx::exec {

/// Fused maps: element by element over one iteration shape. If the values are packed, `program` covers one of
/// their panels of 16 columns; all panels have the same form.
struct Maps {
  std::vector<kernels::ValueIndex> members;
  StripProgram program;
  std::optional<PanelForm> panels;
};

/// A dot with the constant 1: column sums of a [rows, columns] matrix whose rows are contiguous.
struct ColumnSum {
  kernels::ValueIndex out{}, x{};
  std::int64_t base = 0, rows = 0, columns = 0, row_stride = 0;
};

/// Any other value, element by element as kernels/ref defines it.
struct Generic {
  kernels::ValueIndex out{};
  std::int64_t count = 0;
};

/// A dot recognised as a (batched, strided) matrix product.
struct Matmul {
  kernels::ValueIndex out{}, a{}, b{};
  std::int64_t a_base = 0, b_base = 0;
  kernels::cpu::MatmulShape shape;
  std::int64_t a_row = 0, a_depth = 0, b_depth = 0, b_column = 0;
  std::int64_t out_row = 0;  ///< between rows of the output; columns are contiguous
  LoopNest batch;            ///< maps: a, b, out
  /// Packed (layouts.h), with depth shape.depth (b) and shape.rows (out).
  bool b_packed = false, out_packed = false;

  /// The transposed product, with a and b exchanged. The bits are the same: fma(a, b, c) is fma(b, a, c).
  [[nodiscard]] Matmul transposed() const;
};

/// A packed product and the maps that are its only readers. They follow it block by block, while a block is
/// in the nearest caches; the product as a whole is never in memory.
struct ProductMaps {
  Matmul product;
  Maps maps;
};

/// A dot that reads one side through sliding windows: a convolution, or its gradient with respect to its
/// input. Runs image by image.
struct WindowProducts {
  kernels::ValueIndex out{}, x{}, weights{};
  std::int64_t x_base = 0, weights_base = 0;
  LoopNest batch;  ///< maps: x, weights, out
  kernels::cpu::WindowProduct product;
};

/// A dot that folds over window positions: a convolution's weight gradient.
struct WindowGradients {
  kernels::ValueIndex out{}, x{}, other{};
  std::int64_t x_base = 0, other_base = 0;
  LoopNest batch;  ///< maps: x, other, out
  kernels::cpu::WindowGradient gradient;
  bool resumed = false;  ///< goes on with a running state (Machine::resume)

  /// Sets of sums that a thread of `members` needs scratch for.
  [[nodiscard]] std::int64_t sets_of(int members) const;
  /// If `members` threads should share the groups of terms, so that each reads only its share of the images:
  /// the most groups that one thread takes. Nullopt if they share planes or batches instead.
  [[nodiscard]] std::optional<std::int64_t> groups_of(int members) const;
};

/// A sum, max or argmax whose operands a strip program computes.
struct Fold {
  enum class Along : std::uint8_t {
    kFold,     ///< strips run along the fold: an output's operands form a row, folded at once
    kOutputs,  ///< strips run along neighbouring outputs, folded position by position
    /// Operands of all positions × a few contiguous outputs form a matrix, folded down its columns.
    kColumns,
  };
  kernels::ValueIndex out{};
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
struct Chain {
  /// Set if `when` requires a number (the key) to equal one of the output's indices, and the key depends on
  /// the position and on indices before that one alone: an output then visits only the positions whose key is
  /// its index. Outputs that are alike in the indices before it are a set, and see the same keys.
  struct Key {
    kernels::ValueIndex value{};
    DType dtype = DType::kI64;
    std::int64_t base = 0;
    LoopNest positions;       ///< one map: from the position to the value's element
    LoopNest sets;            ///< one map: what a set adds to it
    std::int64_t extent = 0;  ///< extent of the output's dimension that the key is compared with
    std::int64_t stride = 0;  ///< stride of that dimension, in output elements
  };
  kernels::ValueIndex out{};
  DType dtype = DType::kF32;
  std::int64_t length = 0;
  StripProgram init, body;
  std::optional<Key> key;
};

/// An entry's update that changes the rows which a batch names alone, in place (replaced_rows.h).
struct ReplacedRows {
  kernels::ValueIndex out{}, entry{};  ///< the update, [rows, …], and the entry that it becomes
  /// A chain that is not made as a whole: row by row the last of the batch's positions that names the row.
  /// Only rows that are named have theirs in memory.
  kernels::ValueIndex place{};
  kernels::ValueIndex keys{};  ///< by position, the row that it names: any integer
  DType key_dtype = DType::kI64;
  std::int64_t key_base = 0, key_stride = 0;
  std::int64_t positions = 0, rows = 0;
  std::int64_t row_bytes = 0;
  StripProgram program;  ///< the update as a map, whose units are within rows
};

/// Several values concatenated into one (concatenation.h): each piece is copied to its part.
struct Concatenation {
  struct Piece {
    kernels::ValueIndex from{};
    std::int64_t from_base = 0, to_base = 0;  ///< elements
    LoopNest nest;                            ///< maps: from, to
  };
  kernels::ValueIndex out{};
  DType dtype = DType::kF32;
  std::vector<Piece> pieces;
};

/// Maps, sums and maxima over the same rows, in execution order (device_rows.h).
struct Rows {
  std::vector<kernels::ValueIndex> members;
  /// A member has a number per row, or per row and column; folds run along a row.
  std::int64_t rows = 0, columns = 0;
};

/// A product that a device makes in tiles.
struct TiledProduct {
  Matmul product;
  kernels::cuda::TileForm form;
};

/// A dot of another form that a device makes in tiles: `dot` without the values' addresses.
struct TiledDot {
  kernels::ValueIndex out{}, a{}, b{};
  kernels::cuda::Dot dot;
};

/// A sum, max or argmax of many positions that groups of 32 threads of a device fold, a thread for each of
/// the lanes of dgx-numerics(7), "Folds". A group folds 2,048 positions of an output into one part. Where an
/// output has more, its parts are the items of another level, until there is one.
struct TeamFold {
  kernels::ValueIndex out{};
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
struct KeyedChain {
  kernels::ValueIndex out{};
  Chain::Key key;
};

/// The forms of the operations of a plan for the CPU, and for a device. Machine has a run() and
/// make_device_step() an add() for each of theirs: a new alternative does not compile before they know it.
using CpuOperation = std::variant<Maps, ColumnSum, Generic, Matmul, ProductMaps, WindowProducts,
                                  WindowGradients, Fold, Chain, Concatenation, ReplacedRows>;
using DeviceOperation =
    std::variant<Maps, ColumnSum, Generic, Rows, TiledProduct, TiledDot, TeamFold, KeyedChain>;

/// One piece of a plan's work. All operations of a plan are of one backend.
struct Operation {
  std::variant<CpuOperation, DeviceOperation> work;
  double cost = 0;                               ///< estimated cycles on one thread
  std::vector<kernels::ValueIndex> reads = {};   ///< may name a value several times
  std::vector<kernels::ValueIndex> writes = {};  ///< values that it stores in memory
};

/// The operation as `Form` on the CPU or on a device, or null.
template <class Form, class AnOperation>
[[nodiscard]] auto* on_cpu(AnOperation& operation) {
  return std::get_if<Form>(std::get_if<CpuOperation>(&operation.work));
}
template <class Form, class AnOperation>
[[nodiscard]] auto* on_device(AnOperation& operation) {
  return std::get_if<Form>(std::get_if<DeviceOperation>(&operation.work));
}

/// The maps of Maps or ProductMaps, or null.
[[nodiscard]] Maps* maps_of(Operation& operation);
[[nodiscard]] const Maps* maps_of(const Operation& operation);

/// The strip program of Maps, ProductMaps or ReplacedRows, or null.
[[nodiscard]] const StripProgram* map_program_of(const Operation& operation);

/// The values that an operation makes, in registers or in memory, in the order of the program.
[[nodiscard]] std::vector<kernels::ValueIndex> values_of(const Operation& operation);

/// An operation in words, for people. `kind` is "product", "maps", …; `form` is " (", its size and ")", in
/// maps after the values' numbers, or "".
struct Words {
  std::string kind, form;
};
[[nodiscard]] Words words_of(const Operation& operation);

}  // namespace dgx::exec
