// Loops, outermost first: column blocks, groups of depth, row blocks, blocks of depth, strips of B, panels
// of A, and inside the micro-kernel the 256 terms of a block, whose sums never leave the registers. C
// itself holds the sum of finished groups; the sum of a group's finished blocks is in scratch, tile after
// tile, because C's rows may be a power of two apart and then share few cache sets. Both sides are packed
// where a number is used often enough to pay for it: A's panels for a row block and a block of depth, B's
// strips for a column block and a group.
#include "dgx/kernels/cpu/matmul.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "dgx/core/checked.h"
#include "dgx/core/range.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"
#include "packing.h"
#include "panels.h"
#include "zero_terms.h"

namespace dgx::kernels::cpu {
namespace {

// A macro tile of C, at most kRowBlock × kColumnBlock, stays in the second-level cache through all blocks of
// a group; a strip of B (16 or 32 KiB) stays in the first level through all panels of A. With one or two
// blocks of depth the macro tile is hardly revisited, and wider ones save packing A again for the next
// columns.
constexpr std::int64_t kRowBlock = 112;
constexpr std::int64_t kColumnBlock = 768;
constexpr std::int64_t kShallowDepth = 2 * kDotBlock;
constexpr std::int64_t kShallowColumnBlock = 2 * kColumnBlock;
// Floats of B's strips in scratch: 4 MiB per thread.
constexpr std::int64_t kMostOfB = std::int64_t{1} << 20U;
constexpr std::int64_t kSlack = 16;  // packing writes whole vectors

}  // namespace

// A page-aligned buffer of floats that only grows.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  ~FloatBuffer() { release(); }
  FloatBuffer(const FloatBuffer&) = delete;
  FloatBuffer& operator=(const FloatBuffer&) = delete;

  float* at_least(std::int64_t count) {
    if (count > count_) {
      release();
      data_ =
          static_cast<float*>(::operator new(static_cast<std::size_t>(count) * sizeof(float), kAlignment));
      count_ = count;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  void release() { ::operator delete(data_, kAlignment); }
  float* data_ = nullptr;
  std::int64_t count_ = 0;
};

struct Scratch::Buffers {
  FloatBuffer a;       // panels of one row block and one block of depth
  FloatBuffer b;       // strips of one column block and one group
  FloatBuffer groups;  // the macro tile's group sums, tile after tile
};

Scratch::Scratch() : buffers_(std::make_unique<Buffers>()) {}
Scratch::~Scratch() = default;

namespace {

// Columns per column block: as few blocks as possible, nearly equal.
std::int64_t column_block(std::int64_t columns, std::int64_t depth) {
  const std::int64_t most = depth <= kShallowDepth
                                ? kShallowColumnBlock
                                : std::min(kColumnBlock, kMostOfB / std::min(depth, kDotGroupPositions));
  const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(columns, most));
  return std::max<std::int64_t>(1, ceil_div(strip_count(columns), blocks)) * kStripWidth;
}

// A column block of B within a group of depth. Full strips may be B itself; a last, partial strip is always
// packed, because the micro-kernel reads whole strips.
struct Strips {
  const float* data = nullptr;
  std::int64_t strip_stride = 0;
  std::int64_t step = kStripWidth;
  const float* partial = nullptr;
};

// Packing is a tenth of the work if each number is used only about a hundred times. Operands are then read in
// place, unless their rows are so far apart that they share few cache sets or need a page each. Packing pays
// sooner for a transposed A, whose panels are spread over a cache line or two of each of many rows.
constexpr std::int64_t kDirectUses = 384;
constexpr std::int64_t kDirectTransposedUses = 128;
bool worth_packing(std::int64_t uses, std::int64_t most_uses, std::int64_t stride) {
  return uses > most_uses || stride <= 0 || stride > 1024 || stride % 512 == 0;
}

// Prefetches a part of a matrix a few cache lines per call, while something else is computed.
class Fetcher {
 public:
  Fetcher() = default;
  // Prefetches `runs` runs of `floats` contiguous floats, runs `stride` apart, within about `times` calls of
  // fetch_some.
  Fetcher(const float* data, std::int64_t runs, std::int64_t stride, std::int64_t floats, std::int64_t times)
      : data_(data), runs_(runs), stride_(stride), floats_(floats) {
    lines_at_once_ = ceil_div(runs * ceil_div(floats, kLine), times);
  }
  void fetch_some() {
    for (std::int64_t n = 0; n < lines_at_once_ && runs_ > 0; ++n) {
      __builtin_prefetch(data_ + at_, 0, 2);
      at_ += kLine;
      if (at_ < floats_) continue;
      at_ = 0;
      data_ += stride_;
      --runs_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 16;
  const float* data_ = nullptr;
  std::int64_t runs_ = 0, stride_ = 0, floats_ = 0, at_ = 0, lines_at_once_ = 0;
};

// A C of this many elements or more is seldom in the near caches when its tiles are written.
constexpr std::int64_t kFarOutput = 64 * 1024;

// One call of matmul.
class Product {
 public:
  Product(const MatmulShape& shape, Matrix a, Output c, const Part& part, Epilogue epilogue, Scratch& scratch)
      : kernels_(current_kernels()),
        shape_(shape),
        a_(a),
        c_(c),
        part_(part),
        epilogue_(epilogue),
        buffers_(scratch.buffers()),
        panels_(part.row_end - part.row_begin, kernels_.tile_rows),
        pack_a_(!(a.row_stride == 1 || a.column_stride == 1) ||
                worth_packing(part.column_end - part.column_begin,
                              a.row_stride == 1 ? kDirectTransposedUses : kDirectUses,
                              a.row_stride == 1 ? a.column_stride : a.row_stride)),
        far_output_(shape.rows * shape.columns >= kFarOutput) {}

  // `operand.strips(columns, group)` returns where B's strips are; `operand.pack(columns, group, block)`
  // packs those of one block of depth, just before their first use.
  template <class OperandB>
  void run(const OperandB& operand) {
    const std::int64_t width = column_block(part_.column_end - part_.column_begin, shape_.depth);
    for (std::int64_t column = part_.column_begin; column < part_.column_end; column += width) {
      columns_ = {column, std::min(part_.column_end, column + width)};
      group_ = {0, std::min(kDotGroupPositions, shape_.depth)};
      for (;;) {
        strips_ = operand.strips(columns_, group_);
        run_group(operand);
        if (group_.end == shape_.depth) break;
        group_ = {group_.end, std::min(group_.end + kDotGroupPositions, shape_.depth)};
      }
    }
  }

 private:
  template <class OperandB>
  void run_group(const OperandB& operand) {
    const std::int64_t panels_at_once = kRowBlock / kernels_.tile_rows;
    for (std::int64_t panel = 0; panel < panels_.count; panel += panels_at_once) {
      block_panels_ = {panel, std::min(panels_.count, panel + panels_at_once)};
      row_ = panels_.first_row(panel);
      rows_ = panels_.first_row(block_panels_.end) - row_;
      block_ = {group_.begin, std::min(group_.begin + kDotBlock, group_.end)};
      for (;;) {
        if (panel == 0) operand.pack(columns_, group_, block_);
        run_block();
        if (block_.end == group_.end) break;
        block_ = {block_.end, std::min(block_.end + kDotBlock, group_.end)};
      }
    }
  }

  void run_block() {
    if (pack_a_) pack_panels();
    zeros_.forget_panels();
    const bool in_runs = a_.column_stride == 1 || a_.row_stride == 1;
    fetcher_ = pack_a_ && in_runs ? next_block_of_a() : Fetcher();
    const std::int64_t full = columns_.size() / kStripWidth;
    for (std::int64_t strip = 0; strip < full; strip += kernels_.tile_strips) {
      run_strips(strip, static_cast<int>(std::min<std::int64_t>(kernels_.tile_strips, full - strip)),
                 kStripWidth);
    }
    if (columns_.size() > full * kStripWidth) run_strips(full, 1, columns_.size() - full * kStripWidth);
  }

  // A fetcher of the block of A that will be packed after this one, to be called between this one's tiles.
  [[nodiscard]] Fetcher next_block_of_a() const {
    Range rows = {row_, row_ + rows_};
    Range depth = {block_.end, std::min(block_.end + kDotBlock, group_.end)};
    if (block_.end == group_.end) {
      const std::int64_t all = part_.row_end - part_.row_begin;
      rows = {rows.end, std::min(rows.end + rows_, all)};
      depth = {group_.begin, std::min(group_.begin + kDotBlock, group_.end)};
    }
    const float* from =
        a_.data + (part_.row_begin + rows.begin) * a_.row_stride + depth.begin * a_.column_stride;
    const std::int64_t strips = strip_count(columns_.size());
    const std::int64_t tiles = block_panels_.size() * ceil_div(strips, kernels_.tile_strips);
    if (a_.row_stride == 1) return {from, depth.size(), a_.column_stride, rows.size(), tiles};
    return {from, rows.size(), a_.row_stride, depth.size(), tiles};
  }

  // Runs all panels of the row block against `strips` strips, the last of them `last_width` wide.
  void run_strips(std::int64_t strip, int strips, std::int64_t last_width) {
    const bool partial = last_width < kStripWidth;
    float* group = buffers_.groups.at_least(kRowBlock * strip_count(columns_.size()) * kStripWidth) +
                   strip * kStripWidth * rows_;
    zeros_.forget_strips();
    TileTask task;
    task.b_step = partial ? kStripWidth : strips_.step;
    task.b_strip_stride = strips_.strip_stride;
    const float* const b = (partial ? strips_.partial : strips_.data + strip * strips_.strip_stride) +
                           (block_.begin - group_.begin) * task.b_step;
    const float* packed = buffers_.a.at_least(0);
    for (std::int64_t panel = block_panels_.begin; panel < block_panels_.end; ++panel) {
      task.depth = block_.size();
      fetch_ahead(task, panel - block_panels_.begin, strip, strips);
      fetcher_.fetch_some();
      const int height = panels_.height(panel);
      const Matrix a = pack_a_ ? Matrix{packed, 1, height} : panel_of_a(panel);
      task.a = a.data;
      task.b = b;
      task.a_row_stride = a.row_stride;
      task.a_step = a.column_stride;
      task.group = block_.begin == group_.begin ? nullptr : group;
      leave_out_zeros(task, panel - block_panels_.begin, height, strips);
      if (block_.end == group_.end) {
        finish_tile(task, panels_.first_row(panel), strip, height, strips, last_width);
      } else {
        task.out = group;
        task.out_row_stride = strips * kStripWidth;
        task.out_strip_stride = kStripWidth;
        kernels_.tile(task, height, strips);
      }
      packed += height * block_.size();
      group += height * strips * kStripWidth;
    }
    if (block_.end == shape_.depth && epilogue_.function != nullptr) {
      epilogue_.function(epilogue_.context, part_.row_begin + row_, rows_,
                         columns_.begin + strip * kStripWidth, (strips - 1) * kStripWidth + last_width);
    }
  }

  void leave_out_zeros(TileTask& task, std::int64_t panel, int height, int strips) {
    const Range terms = zeros_.needed(kernels_, task, static_cast<std::size_t>(panel), height, strips);
    task.a += terms.begin * task.a_step;
    task.b += terms.begin * task.b_step;
    task.depth = terms.size();
  }

  // Prefetches what the epilogue will touch, shared among the panels of the row block: each fetches one
  // matrix's strip or some rows of it.
  void fetch_ahead(TileTask& task, std::int64_t panel, std::int64_t strip, std::int64_t strips) const {
    const auto matrices =
        std::find(epilogue_.ahead.begin(), epilogue_.ahead.end(), nullptr) - epilogue_.ahead.begin();
    if (matrices == 0 || block_.end < shape_.depth) return;
    const std::int64_t per_run = std::max<std::int64_t>(1, block_panels_.size() / (matrices * strips));
    const std::int64_t run = panel / per_run;
    task.ahead = nullptr;
    task.ahead_step = 0;
    if (run >= matrices * strips) return;
    const std::int64_t rows = ceil_div(rows_, per_run);
    const std::int64_t row = part_.row_begin + row_ + panel % per_run * rows;
    const float* from = epilogue_.ahead[static_cast<std::size_t>(run % matrices)] + row * kStripWidth +
                        (columns_.begin / kStripWidth + strip + run / matrices) * epilogue_.ahead_stride;
    const auto row_bytes = static_cast<std::int64_t>(kStripWidth * sizeof(float));
    task.ahead = reinterpret_cast<const char*>(from);
    task.ahead_step = std::min(row_bytes, ceil_div(rows * row_bytes, block_.size()));
  }

  // Computes a tile's last block of a group into C, through a copy if C ends within the strip.
  void finish_tile(TileTask& task, std::int64_t row, std::int64_t strip, int height, int strips,
                   std::int64_t last_width) const {
    float* const to = c_.data + (part_.row_begin + row) * c_.row_stride +
                      (columns_.begin / kStripWidth + strip) * c_.strip_stride;
    task.accumulate = group_.begin > 0;
    if (far_output_) fetch_output(to, height, strips);
    if (last_width == kStripWidth) {
      task.out = to;
      task.out_row_stride = c_.row_stride;
      task.out_strip_stride = c_.strip_stride;
      kernels_.tile(task, height, strips);
    } else {
      finish_partial_tile(task, to, height, static_cast<std::size_t>(last_width) * sizeof(float));
    }
    task.accumulate = false;
  }

  // Prefetches the destination of the tile while it is computed.
  void fetch_output(const float* to, int height, int strips) const {
    for (int s = 0; s < strips; ++s) {
      for (int i = 0; i < height; ++i) __builtin_prefetch(to + s * c_.strip_stride + i * c_.row_stride, 1, 3);
    }
  }

  void finish_partial_tile(TileTask& task, float* to, int height, std::size_t row_bytes) const {
    alignas(64) float tile[kStripWidth * kStripWidth] = {};
    if (task.accumulate) {
      for (int i = 0; i < height; ++i) std::memcpy(tile + i * kStripWidth, to + i * c_.row_stride, row_bytes);
    }
    task.out = tile;
    task.out_row_stride = kStripWidth;
    kernels_.tile(task, height, 1);
    for (int i = 0; i < height; ++i) std::memcpy(to + i * c_.row_stride, tile + i * kStripWidth, row_bytes);
  }

  [[nodiscard]] Matrix panel_of_a(std::int64_t panel) const {
    const std::int64_t row = part_.row_begin + panels_.first_row(panel);
    return {a_.data + row * a_.row_stride + block_.begin * a_.column_stride, a_.row_stride, a_.column_stride};
  }

  void pack_panels() {
    float* to = buffers_.a.at_least(kRowBlock * kDotBlock + kSlack);
    for (std::int64_t panel = block_panels_.begin; panel < block_panels_.end; ++panel) {
      pack_panel(kernels_, panel_of_a(panel), panels_.height(panel), block_.size(), to);
      to += panels_.height(panel) * block_.size();
    }
  }

  const KernelTable& kernels_;
  const MatmulShape shape_;
  const Matrix a_;
  const Output c_;
  const Part part_;
  const Epilogue epilogue_;
  Scratch::Buffers& buffers_;
  const Panels panels_;
  const bool pack_a_;
  const bool far_output_;

  Range columns_;          // of C: the column block
  Range group_;            // of depth
  Range block_;            // of depth
  Range block_panels_;     // the row block, in panels
  std::int64_t row_ = 0;   // the row block's first row, from part_.row_begin
  std::int64_t rows_ = 0;  // and its number of rows
  Strips strips_;
  ZeroTerms zeros_;  // of the row block's panels and the current strips
  Fetcher fetcher_;  // of A's next block
};

// B in memory: packed into scratch block by block, or read in place except for a last, partial strip.
class MatrixB {
 public:
  MatrixB(Matrix b, std::int64_t uses, FloatBuffer& buffer)
      : b_(b),
        packs_(b.column_stride != 1 || worth_packing(uses, kDirectUses, b.row_stride)),
        buffer_(buffer) {}

  [[nodiscard]] Strips strips(Range columns, Range group) const {
    const std::int64_t stride = strip_stride(group.size());
    const std::int64_t full = columns.size() / kStripWidth;
    float* const packed = buffer_.at_least((packs_ ? strip_count(columns.size()) : 1) * stride);
    if (packs_) return {packed, stride, kStripWidth, packed + full * stride};
    return {corner(columns.begin, group.begin).data, kStripWidth, b_.row_stride, packed};
  }

  void pack(Range columns, Range group, Range block) const {
    const std::int64_t first = packs_ ? columns.begin : columns.end - columns.size() % kStripWidth;
    pack_strips(current_kernels(), corner(first, block.begin), block.size(), columns.end - first,
                buffer_.at_least(0) + (block.begin - group.begin) * kStripWidth, strip_stride(group.size()));
  }

 private:
  [[nodiscard]] Matrix corner(std::int64_t column, std::int64_t k) const {
    return {b_.data + k * b_.row_stride + column * b_.column_stride, b_.row_stride, b_.column_stride};
  }

  const Matrix b_;
  const bool packs_;
  FloatBuffer& buffer_;
};

// B packed by the caller.
struct PackedB {
  [[nodiscard]] Strips strips(Range columns, Range group) const {
    const std::int64_t stride = strip_stride(b.depth);
    const float* const data = b.data + columns.begin / kStripWidth * stride + group.begin * kStripWidth;
    return {data, stride, kStripWidth, data + columns.size() / kStripWidth * stride};
  }
  void pack(Range /*columns*/, Range /*group*/, Range /*block*/) const {}

  PackedMatrix b;
};

}  // namespace

void matmul(const MatmulShape& shape, Matrix a, Matrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch) {
  Product product(shape, a, c, part, epilogue, scratch);
  product.run(MatrixB(b, part.row_end - part.row_begin, scratch.buffers().b));
}

void matmul(const MatmulShape& shape, Matrix a, PackedMatrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch) {
  Product product(shape, a, c, part, epilogue, scratch);
  product.run(PackedB{b});
}

void matmul(const MatmulShape& shape, Matrix a, Matrix b, float* c, std::int64_t ldc, Scratch& scratch) {
  matmul(shape, a, b, Output::row_major(c, ldc), Part::whole(shape), {}, scratch);
}

}  // namespace dgx::kernels::cpu
