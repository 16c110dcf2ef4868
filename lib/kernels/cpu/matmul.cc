#include "dgx/kernels/cpu/matmul.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "kernel_table.h"
#include "packing.h"

namespace dgx::kernels::cpu {
namespace {

constexpr std::int64_t kBlock = 256;         // dgx-numerics(7), "dot"
constexpr std::int64_t kGroup = 16 * kBlock;
// A macro tile of C, at most kRowBlock × kColumnBlock, stays in the second-level cache while a group's blocks pass by; a
// strip of B (16 or 32 KiB) stays in the first level while the panels of A pass by it.
constexpr std::int64_t kRowBlock = 112;
constexpr std::int64_t kColumnBlock = 768;
constexpr std::int64_t kSlack = 16;  // packing writes whole vectors

}  // namespace

// 64-byte aligned floats that only grow.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  ~FloatBuffer() { release(); }
  FloatBuffer(const FloatBuffer&) = delete;
  FloatBuffer& operator=(const FloatBuffer&) = delete;

  float* at_least(std::int64_t count) {
    if (count > count_) {
      release();
      data_ = static_cast<float*>(::operator new(static_cast<std::size_t>(count) * sizeof(float), kAlignment));
      count_ = count;
    }
    return data_;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

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
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;

std::int64_t Scratch::size_bytes() const {
  return (buffers_->a.count() + buffers_->b.count() + buffers_->groups.count()) *
         static_cast<std::int64_t>(sizeof(float));
}

namespace {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

// Rows cut into panels of nearly equal height, at most `most`: 15 rows are better cut 8 + 7 than 14 + 1.
struct Panels {
  Panels(std::int64_t rows, std::int64_t most)
      : count((rows + most - 1) / most), base(rows / std::max<std::int64_t>(1, count)), extra(rows - base * count) {}
  [[nodiscard]] std::int64_t first_row(std::int64_t panel) const { return panel * base + std::min(panel, extra); }
  [[nodiscard]] int height(std::int64_t panel) const { return static_cast<int>(base + (panel < extra ? 1 : 0)); }

  std::int64_t count;
  std::int64_t base;
  std::int64_t extra;
};

// One call of matmul. Loops, outermost first: column blocks, groups of depth, row blocks, blocks of depth, strips of B,
// panels of A, and inside the micro-kernel the 256 terms. C itself holds the sum of finished groups; the sum of a group's
// finished blocks is in scratch, tile after tile, because C's rows may be a power of two apart and then share few cache sets.
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
        panels_(part.row_end - part.row_begin, kernels_.tile_rows) {}

  // `strips_of(columns, depth range, stride out)` gives the packed strips of B for a column block and a group.
  template <class StripsOf>
  void run(const StripsOf& strips_of) {
    for (std::int64_t column = part_.column_begin; column < part_.column_end; column += kColumnBlock) {
      columns_ = {column, std::min(part_.column_end, column + kColumnBlock)};
      group_ = {0, std::min(kGroup, shape_.depth)};
      for (;;) {
        strips_ = strips_of(columns_, group_, strip_stride_);
        run_group();
        if (group_.end == shape_.depth) break;
        group_ = {group_.end, std::min(group_.end + kGroup, shape_.depth)};
      }
    }
  }

 private:
  void run_group() {
    const std::int64_t panels_at_once = kRowBlock / kernels_.tile_rows;
    for (std::int64_t panel = 0; panel < panels_.count; panel += panels_at_once) {
      block_panels_ = {panel, std::min(panels_.count, panel + panels_at_once)};
      row_ = panels_.first_row(panel);
      rows_ = panels_.first_row(block_panels_.end) - row_;
      block_ = {group_.begin, std::min(group_.begin + kBlock, group_.end)};
      for (;;) {
        run_block();
        if (block_.end == group_.end) break;
        block_ = {block_.end, std::min(block_.end + kBlock, group_.end)};
      }
    }
  }

  void run_block() {
    panel_data_ = pack_panels();
    const std::int64_t strips = strip_count(columns_.size());
    for (std::int64_t strip = 0; strip < strips; strip += kernels_.tile_strips) {
      const int width = static_cast<int>(std::min<std::int64_t>(kernels_.tile_strips, strips - strip));
      run_strips(strip, width);
      const std::int64_t first = columns_.begin + strip * kStripWidth;
      if (block_.end == shape_.depth && epilogue_.function != nullptr) {
        epilogue_.function(epilogue_.context, part_.row_begin + row_, rows_, first,
                           std::min(columns_.end - first, width * kStripWidth));
      }
    }
  }

  // All panels of the row block against `width` strips.
  void run_strips(std::int64_t strip, int width) {
    const std::int64_t depth = block_.size();
    float* group = buffers_.groups.at_least(kRowBlock * (kColumnBlock + kStripWidth)) + strip * kStripWidth * rows_;
    TileTask task;
    task.depth = depth;
    task.a = panel_data_;
    task.b = strips_ + strip * strip_stride_ + (block_.begin - group_.begin) * kStripWidth;
    task.b_strip_stride = strip_stride_;
    for (std::int64_t panel = block_panels_.begin; panel < block_panels_.end; ++panel) {
      const int height = panels_.height(panel);
      task.group = block_.begin == group_.begin ? nullptr : group;
      if (block_.end == group_.end) {
        finish_tile(task, panels_.first_row(panel), strip, height, width);
      } else {
        task.out = group;
        task.out_row_stride = width * kStripWidth;
        task.out_strip_stride = kStripWidth;
        kernels_.tile(task, height, width);
      }
      task.a += height * depth;
      group += height * width * kStripWidth;
    }
  }

  // The tile at the group's last block: to C, through a copy where C ends within the last strip.
  void finish_tile(TileTask& task, std::int64_t row, std::int64_t strip, int height, int width) const {
    const std::int64_t first_strip = columns_.begin / kStripWidth + strip;
    float* to = c_.data + (part_.row_begin + row) * c_.row_stride + first_strip * c_.strip_stride;
    task.accumulate = group_.begin > 0;
    task.out = to;
    task.out_row_stride = c_.row_stride;
    task.out_strip_stride = c_.strip_stride;
    const std::int64_t columns = columns_.size() - strip * kStripWidth;
    if (columns < width * kStripWidth) {
      finish_partial_tile(task, to, columns, height, width);
    } else {
      kernels_.tile(task, height, width);
    }
    task.accumulate = false;
  }

  void finish_partial_tile(TileTask& task, float* to, std::int64_t columns, int height, int width) const {
    alignas(64) float tile[kStripWidth * 2 * kStripWidth] = {};
    const auto copy = [&](bool into_c) {
      for (int i = 0; i < height; ++i) {
        for (int s = 0; s < width; ++s) {
          float* in_c = to + i * c_.row_stride + s * c_.strip_stride;
          float* in_tile = tile + (i * width + s) * kStripWidth;
          const auto count = static_cast<std::size_t>(std::min(kStripWidth, columns - s * kStripWidth));
          std::memcpy(into_c ? in_c : in_tile, into_c ? in_tile : in_c, count * sizeof(float));
        }
      }
    };
    if (task.accumulate) copy(false);
    task.out = tile;
    task.out_row_stride = width * kStripWidth;
    task.out_strip_stride = kStripWidth;
    kernels_.tile(task, height, width);
    copy(true);
  }

  const float* pack_panels() {
    float* const panels = buffers_.a.at_least(kRowBlock * kBlock + kSlack);
    float* to = panels;
    for (std::int64_t panel = block_panels_.begin; panel < block_panels_.end; ++panel) {
      const std::int64_t row = part_.row_begin + panels_.first_row(panel);
      const Matrix corner = {a_.data + row * a_.row_stride + block_.begin * a_.column_stride, a_.row_stride,
                             a_.column_stride};
      pack_panel(kernels_, corner, panels_.height(panel), block_.size(), to);
      to += panels_.height(panel) * block_.size();
    }
    return panels;
  }

  const KernelTable& kernels_;
  const MatmulShape shape_;
  const Matrix a_;
  const Output c_;
  const Part part_;
  const Epilogue epilogue_;
  Scratch::Buffers& buffers_;
  const Panels panels_;

  Range columns_;       // of C: the column block
  Range group_;         // of depth
  Range block_;         // of depth
  Range block_panels_;  // the row block, in panels
  std::int64_t row_ = 0;   // the row block's first row, from part_.row_begin
  std::int64_t rows_ = 0;  // and its rows
  const float* strips_ = nullptr;
  std::int64_t strip_stride_ = 0;
  const float* panel_data_ = nullptr;
};

}  // namespace

void matmul(const MatmulShape& shape, Matrix a, Matrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch) {
  Product product(shape, a, c, part, epilogue, scratch);
  product.run([&](Range columns, Range group, std::int64_t& stride) {
    stride = group.size() * kStripWidth;
    float* to = scratch.buffers().b.at_least(strip_count(columns.size()) * stride + kSlack);
    const Matrix corner = {b.data + group.begin * b.row_stride + columns.begin * b.column_stride, b.row_stride,
                           b.column_stride};
    pack_strips(current_kernels(), corner, group.size(), columns.size(), to, stride);
    return to;
  });
}

void matmul(const MatmulShape& shape, Matrix a, PackedMatrix b, Output c, const Part& part, Epilogue epilogue,
            Scratch& scratch) {
  Product product(shape, a, c, part, epilogue, scratch);
  product.run([&](Range columns, Range group, std::int64_t& stride) {
    stride = b.depth * kStripWidth;
    return b.data + columns.begin * b.depth + group.begin * kStripWidth;
  });
}

void matmul(const MatmulShape& shape, Matrix a, Matrix b, float* c, std::int64_t ldc, Scratch& scratch) {
  matmul(shape, a, b, Output::row_major(c, ldc), Part::whole(shape), {}, scratch);
}

}  // namespace dgx::kernels::cpu
