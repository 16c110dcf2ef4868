// Loops, outermost first: column blocks, groups of depth, row blocks, blocks of depth, panels of B, row
// panels of A, and inside the micro-kernel the 256 terms of a block, whose sums never leave the registers. C
// itself holds the sum of finished groups; the sum of a group's finished blocks is in scratch, tile after
// tile, because C's rows may be a power of two apart and then share few cache sets. Both sides are packed
// where a number is used often enough to pay for it: A's row panels for a row block and a block of depth, B's
// panels for a column block and a group.
#include "dgx/kernels/cpu/matmul.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "dgx/core/checked.h"
#include "dgx/core/range.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"
#include "packing.h"
#include "row_panels.h"
#include "zero_terms.h"

namespace dgx::kernels::cpu {
namespace {

// A macro tile of C, at most kRowBlock × kColumnBlock, stays in the second-level cache through all blocks of
// a group; a panel of B (16 or 32 KiB) stays in the first level through all row panels of A. With one or two
// blocks of depth the macro tile is hardly revisited, and wider ones save packing A again for the next
// columns.
constexpr std::int64_t kRowBlock = 112;
constexpr std::int64_t kColumnBlock = 768;
constexpr std::int64_t kShallowDepth = 2 * kDotBlock;
constexpr std::int64_t kShallowColumnBlock = 2 * kColumnBlock;
// Floats of B's panels in scratch: 4 MiB per thread.
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
  FloatBuffer a;       // row panels of one row block and one block of depth
  FloatBuffer b;       // panels of one column block and one group
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
  return std::max<std::int64_t>(1, ceil_div(panel_count(columns), blocks)) * kPanelWidth;
}

// A column block of B within a group of depth. Full panels may be B itself; a last, partial panel is always
// packed, because the micro-kernel reads whole panels.
struct Panels {
  const float* data = nullptr;
  std::int64_t panel_stride = 0;
  std::int64_t step = kPanelWidth;
  const float* partial = nullptr;
};

// Packing is a tenth of the work if each number is used only about a hundred times. Operands are then read in
// place, unless their rows are so far apart that they share few cache sets or need a page each. Packing pays
// sooner for a transposed A, whose row panels are spread over a cache line or two of each of many rows.
constexpr std::int64_t kDirectUses = 384;
constexpr std::int64_t kDirectTransposedUses = 128;
bool worth_packing(std::int64_t uses, std::int64_t most_uses, std::int64_t stride) {
  return uses > most_uses || stride <= 0 || stride > 1024 || stride % 512 == 0;
}

// Prefetches a part of a matrix, a few cache lines per call, while something else is computed.
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

// One call of matmul: its arguments, and the decisions that hold throughout.
struct Product {
  MatmulShape shape;
  Matrix a;
  Output c;
  Part part;
  Epilogue epilogue;
  Scratch::Buffers& buffers;
  Start start = Start::kZero;
  const KernelTable& kernels = current_kernels();
  RowPanels row_panels{part.row_end - part.row_begin, kernels.tile_rows};
  bool a_in_runs = a.row_stride == 1 || a.column_stride == 1;
  bool pack_a = !a_in_runs || worth_packing(part.column_end - part.column_begin,
                                            a.row_stride == 1 ? kDirectTransposedUses : kDirectUses,
                                            a.row_stride == 1 ? a.column_stride : a.row_stride);
  bool far_output = shape.rows * shape.columns >= kFarOutput;
  std::int64_t ahead_matrices =
      std::find(epilogue.ahead.begin(), epilogue.ahead.end(), nullptr) - epilogue.ahead.begin();

  [[nodiscard]] std::int64_t first_row(std::int64_t row_panel) const {
    return part.row_begin + row_panels.first_row(row_panel);
  }
};

// A turn of the loops: a block of depth of a macro tile.
struct Block {
  Range columns;     // of C: the column block
  Range group;       // of depth
  Panels panels;     // B's, of these columns and this group
  Range row_panels;  // the row block, in row panels
  Range rows;        // the row block, in rows of C
  Range depth;

  [[nodiscard]] bool begins_group() const { return depth.begin == group.begin; }
  [[nodiscard]] bool ends_group() const { return depth.end == group.end; }
};

// The panels that a tile of C takes, the last of them `last_width` wide.
struct TilePanels {
  std::int64_t first;
  int count;
  std::int64_t last_width;
};

// The first `most` indices of [begin, end), or all if there are fewer.
Range first_of(std::int64_t begin, std::int64_t end, std::int64_t most) {
  return {begin, std::min(end, begin + most)};
}

Matrix row_panel_of_a(const Product& product, const Block& at, std::int64_t row_panel) {
  const Matrix& a = product.a;
  return {a.data + product.first_row(row_panel) * a.row_stride + at.depth.begin * a.column_stride,
          a.row_stride, a.column_stride};
}

void pack_row_panels(const Product& product, const Block& at) {
  float* to = product.buffers.a.at_least(kRowBlock * kDotBlock + kSlack);
  for (std::int64_t row_panel = at.row_panels.begin; row_panel < at.row_panels.end; ++row_panel) {
    const int height = product.row_panels.height(row_panel);
    pack_row_panel(product.kernels, row_panel_of_a(product, at, row_panel), height, at.depth.size(), to);
    to += height * at.depth.size();
  }
}

// A fetcher of the block of A that will be packed after this one, to be called between this one's tiles.
Fetcher next_block_of_a(const Product& product, const Block& at) {
  const Matrix& a = product.a;
  const Range rows = at.ends_group() ? first_of(at.rows.end, product.part.row_end, at.rows.size()) : at.rows;
  const Range depth = first_of(at.ends_group() ? at.group.begin : at.depth.end, at.group.end, kDotBlock);
  const float* from = a.data + rows.begin * a.row_stride + depth.begin * a.column_stride;
  const std::int64_t tiles =
      at.row_panels.size() * ceil_div(panel_count(at.columns.size()), product.kernels.tile_panels);
  if (a.row_stride == 1) return {from, depth.size(), a.column_stride, rows.size(), tiles};
  return {from, rows.size(), a.row_stride, depth.size(), tiles};
}

// Prefetches what the epilogue will touch. The row panels of the row block share this: each fetches some rows
// of one matrix's panel.
void fetch_ahead(const Product& product, const Block& at, const TilePanels& panels, std::int64_t row_panel,
                 TileTask& task) {
  const Epilogue& epilogue = product.epilogue;
  const std::int64_t matrices = product.ahead_matrices;
  const std::int64_t per_run = std::max<std::int64_t>(1, at.row_panels.size() / (matrices * panels.count));
  const std::int64_t run = row_panel / per_run;
  task.ahead = nullptr;
  task.ahead_step = 0;
  if (run >= matrices * panels.count) return;
  const std::int64_t rows = ceil_div(at.rows.size(), per_run);
  const std::int64_t row = at.rows.begin + row_panel % per_run * rows;
  const std::int64_t panel = at.columns.begin / kPanelWidth + panels.first + run / matrices;
  const float* from = epilogue.ahead[static_cast<std::size_t>(run % matrices)] + row * kPanelWidth +
                      panel * epilogue.ahead_stride;
  const auto row_bytes = static_cast<std::int64_t>(kPanelWidth * sizeof(float));
  task.ahead = reinterpret_cast<const char*>(from);
  task.ahead_step = std::min(row_bytes, ceil_div(rows * row_bytes, at.depth.size()));
}

// Computes a tile's last block of a group into C, which ends within the tile's one panel, through a copy.
void finish_partial_tile(const Product& product, TileTask& task, float* to, int height, std::int64_t width) {
  alignas(64) float tile[kPanelWidth * kPanelWidth] = {};
  const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(float);
  const std::int64_t stride = product.c.row_stride;
  if (task.accumulate || task.resumes) {
    for (int i = 0; i < height; ++i) std::memcpy(tile + i * kPanelWidth, to + i * stride, row_bytes);
  }
  task.out = tile;
  task.out_row_stride = kPanelWidth;
  product.kernels.tile(task, height, 1);
  for (int i = 0; i < height; ++i) std::memcpy(to + i * stride, tile + i * kPanelWidth, row_bytes);
}

// Computes a tile's last block of a group into C.
void finish_tile(const Product& product, const Block& at, const TilePanels& panels, std::int64_t row_panel,
                 TileTask& task) {
  const Output& c = product.c;
  const int height = product.row_panels.height(row_panel);
  float* const to = c.data + product.first_row(row_panel) * c.row_stride +
                    (at.columns.begin / kPanelWidth + panels.first) * c.panel_stride;
  task.accumulate = at.group.begin > 0 || product.start == Start::kSum;
  task.resumes = product.start == Start::kBlock;
  if (product.far_output) {
    // The destination arrives while the tile is computed.
    const std::int64_t row_stride = c.row_stride;
    for (int s = 0; s < panels.count; ++s) {
      const float* row = to + s * c.panel_stride;
      for (int i = 0; i < height; ++i, row += row_stride) __builtin_prefetch(row, 1, 3);
    }
  }
  if (panels.last_width == kPanelWidth) {
    task.out = to;
    task.out_row_stride = c.row_stride;
    task.out_panel_stride = c.panel_stride;
    product.kernels.tile(task, height, panels.count);
  } else {
    finish_partial_tile(product, task, to, height, panels.last_width);
  }
  task.accumulate = task.resumes = false;
}

// Runs all row panels of the row block against some panels.
void run_panels(const Product& product, const Block& at, const TilePanels& panels, Fetcher& fetcher,
                ZeroTerms& zeros) {
  const bool partial = panels.last_width < kPanelWidth;
  float* group = product.buffers.groups.at_least(kRowBlock * panel_count(at.columns.size()) * kPanelWidth) +
                 panels.first * kPanelWidth * at.rows.size();
  zeros.forget_panels();
  TileTask task;
  task.b_step = partial ? kPanelWidth : at.panels.step;
  task.b_panel_stride = at.panels.panel_stride;
  const float* const b =
      (partial ? at.panels.partial : at.panels.data + panels.first * at.panels.panel_stride) +
      (at.depth.begin - at.group.begin) * task.b_step;
  std::int64_t packed = 0;  // numbers of A's packed panels before this one
  // Decided once, since a tile of a shallow product takes only some hundred cycles.
  const std::int64_t depth = at.depth.size();
  const bool begins_group = at.begins_group(), ends_group = at.ends_group();
  const bool fetches_ahead = product.ahead_matrices > 0 && at.depth.end == product.shape.depth;
  for (std::int64_t row_panel = at.row_panels.begin; row_panel < at.row_panels.end; ++row_panel) {
    const std::int64_t within = row_panel - at.row_panels.begin;
    task.depth = depth;
    if (fetches_ahead) fetch_ahead(product, at, panels, within, task);
    fetcher.fetch_some();
    const int height = product.row_panels.height(row_panel);
    const Matrix a = product.pack_a ? Matrix{product.buffers.a.at_least(0) + packed, 1, height}
                                    : row_panel_of_a(product, at, row_panel);
    task.a = a.data;
    task.b = b;
    task.a_row_stride = a.row_stride;
    task.a_step = a.column_stride;
    task.group = begins_group ? nullptr : group;
    zeros.leave_out(product.kernels, task, static_cast<std::size_t>(within), height, panels.count);
    if (ends_group) {
      finish_tile(product, at, panels, row_panel, task);
    } else {
      task.out = group;
      task.out_row_stride = panels.count * kPanelWidth;
      task.out_panel_stride = kPanelWidth;
      product.kernels.tile(task, height, panels.count);
    }
    packed += height * depth;
    group += height * panels.count * kPanelWidth;
  }
  const Epilogue& epilogue = product.epilogue;
  if (at.depth.end == product.shape.depth && epilogue.function != nullptr) {
    epilogue.function(epilogue.context, at.rows.begin, at.rows.size(),
                      at.columns.begin + panels.first * kPanelWidth,
                      (panels.count - 1) * kPanelWidth + panels.last_width);
  }
}

void run_block(const Product& product, const Block& at) {
  if (product.pack_a) pack_row_panels(product, at);
  ZeroTerms zeros;
  Fetcher fetcher = product.pack_a && product.a_in_runs ? next_block_of_a(product, at) : Fetcher();
  const std::int64_t full = at.columns.size() / kPanelWidth, at_once = product.kernels.tile_panels;
  for (std::int64_t panel = 0; panel < full; panel += at_once) {
    const auto count = static_cast<int>(std::min(at_once, full - panel));
    run_panels(product, at, {panel, count, kPanelWidth}, fetcher, zeros);
  }
  const std::int64_t rest = at.columns.size() - full * kPanelWidth;
  if (rest > 0) run_panels(product, at, {full, 1, rest}, fetcher, zeros);
}

// `b.panels(columns, group)` returns where B's panels are; `b.pack(columns, group, depth)` packs those of one
// block of depth, just before their first use.
template <class OperandB>
void run(const Product& product, const OperandB& b) {
  const Part& part = product.part;
  const std::int64_t depth = product.shape.depth, row_panels = product.row_panels.count;
  const std::int64_t width = column_block(part.column_end - part.column_begin, depth);
  const std::int64_t row_panels_at_once = kRowBlock / product.kernels.tile_rows;
  Block at;
  for (std::int64_t column = part.column_begin; column < part.column_end; column += width) {
    at.columns = first_of(column, part.column_end, width);
    at.group = {};
    do {
      at.group = first_of(at.group.end, depth, kDotGroupPositions);
      at.panels = b.panels(at.columns, at.group);
      for (std::int64_t row_panel = 0; row_panel < row_panels; row_panel += row_panels_at_once) {
        at.row_panels = first_of(row_panel, row_panels, row_panels_at_once);
        at.rows = {product.first_row(row_panel), product.first_row(at.row_panels.end)};
        at.depth = {at.group.begin, at.group.begin};
        do {
          at.depth = first_of(at.depth.end, at.group.end, kDotBlock);
          if (row_panel == 0) b.pack(at.columns, at.group, at.depth);
          run_block(product, at);
        } while (!at.ends_group());
      }
    } while (at.group.end < depth);
  }
}

// B in memory: packed into scratch block by block, or read in place except for a last, partial panel.
class MatrixB {
 public:
  MatrixB(Matrix b, std::int64_t uses, FloatBuffer& buffer)
      : b_(b),
        packs_(b.column_stride != 1 || worth_packing(uses, kDirectUses, b.row_stride)),
        buffer_(buffer) {}

  [[nodiscard]] Panels panels(Range columns, Range group) const {
    const std::int64_t stride = panel_stride(group.size());
    const std::int64_t full = columns.size() / kPanelWidth;
    float* const packed = buffer_.at_least((packs_ ? panel_count(columns.size()) : 1) * stride);
    if (packs_) return {packed, stride, kPanelWidth, packed + full * stride};
    return {corner(columns.begin, group.begin).data, kPanelWidth, b_.row_stride, packed};
  }

  void pack(Range columns, Range group, Range block) const {
    const std::int64_t first = packs_ ? columns.begin : columns.end - columns.size() % kPanelWidth;
    pack_panels(current_kernels(), corner(first, block.begin), block.size(), columns.end - first,
                buffer_.at_least(0) + (block.begin - group.begin) * kPanelWidth, panel_stride(group.size()));
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
  [[nodiscard]] Panels panels(Range columns, Range group) const {
    const std::int64_t stride = panel_stride(b.depth);
    const float* const data = b.data + columns.begin / kPanelWidth * stride + group.begin * kPanelWidth;
    return {data, stride, kPanelWidth, data + columns.size() / kPanelWidth * stride};
  }
  void pack(Range /*columns*/, Range /*group*/, Range /*block*/) const {}

  PackedMatrix b;
};

}  // namespace

void matmul(const MatmulShape& shape, Matrix a, Matrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch, Start start) {
  run({shape, a, c, part, epilogue, scratch.buffers(), start},
      MatrixB(b, part.row_end - part.row_begin, scratch.buffers().b));
}

void matmul(const MatmulShape& shape, Matrix a, PackedMatrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch, Start start) {
  run({shape, a, c, part, epilogue, scratch.buffers(), start}, PackedB{b});
}

void matmul(const MatmulShape& shape, Matrix a, Matrix b, float* c, std::int64_t ldc, Scratch& scratch) {
  matmul(shape, a, b, Output::row_major(c, ldc), Part::whole(shape), {}, scratch);
}

}  // namespace dgx::kernels::cpu
