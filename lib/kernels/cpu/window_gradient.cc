// Dots over all outputs of all images, one block of 256 terms after the other. A block's images are copied
// into grids (window_grid.cc), of which only as many are kept as a block can touch; the block's part of the
// other side is packed into panels. Then each tile (planes or taps by panels) takes the whole block from the
// nearest caches. Scratch holds the sums of the open group and of all finished groups, tile after tile, and
// of the open block where dots are cut.
// Channels-last images go to channels_last_gradient.cc.
#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/kernels/cpu/channels_last.h"
#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"
#include "packing.h"
#include "row_panels.h"
#include "window_share.h"

namespace dgx::kernels::cpu {
namespace {

/// Rounded up to whole cache lines.
std::int64_t in_lines(std::int64_t floats) { return panel_count(floats) * kPanelWidth; }

}  // namespace

WindowGradient::WindowGradient(WindowGradientForm form)
    : form_(std::move(form)),
      grid_(form_.rows, form_.columns, form_.planes, form_.fill),
      channels_last_(ChannelsLastGradient::of(form_)) {}

std::int64_t WindowGradient::slots() const {
  return std::min((kDotBlock - 2) / outputs() + 2, static_cast<std::int64_t>(form_.images.size()));
}

std::int64_t WindowGradient::groups() const {
  return channels_last_ ? ceil_div(channels_last_->depth(), kDotGroupPositions) : 0;
}

std::int64_t WindowGradient::terms_of(std::int64_t first, std::int64_t end) const {
  const std::int64_t depth = outputs() * static_cast<std::int64_t>(form_.images.size());
  return std::min(depth, end * kDotGroupPositions) - std::min(depth, first * kDotGroupPositions);
}

std::int64_t WindowGradient::scratch_size(std::int64_t planes, std::int64_t sets) const {
  if (channels_last_) return channels_last_->scratch_size(planes, sets);
  return in_lines(form_.count) * (kDotBlock + sets * planes * taps()) +
         slots() * in_lines(grid_.size(planes));
}

WindowGradientRunner::WindowGradientRunner(const WindowGradient& gradient, std::int64_t first,
                                           std::int64_t end, float* scratch)
    : gradient_(gradient),
      form_(gradient.form()),
      kernels_(current_kernels()),
      first_(first),
      end_(end),
      depth_(gradient.outputs() * static_cast<std::int64_t>(form_.images.size())),
      slots_(gradient.slots()),
      slot_size_(in_lines(gradient.grid().size(end - first))),
      along_taps_(end - first < form_.columns.taps && gradient.grid().has_even_columns()),
      set_size_(in_lines(form_.count) * (end - first) * gradient.taps()),
      packed_(scratch),
      grids_(packed_ + in_lines(form_.count) * kDotBlock),
      sets_(grids_ + slots_ * slot_size_) {
  if (gradient.channels_last() != nullptr) {
    channels_last_ =
        std::make_unique<ChannelsLastGradientRunner>(*gradient.channels_last(), first, end, scratch);
    return;
  }
  for (std::int64_t s = 0; s < slots_; ++s) gradient.grid().clear(end - first, grids_ + s * slot_size_);
}

WindowGradientRunner::~WindowGradientRunner() = default;

void WindowGradientRunner::run(const float* operand, const float* other, float* out) {
  if (channels_last_) return channels_last_->run(operand, other, out);
  start(operand, other);
  float* const totals = sets_ + set_size_;
  add_groups_of_terms(
      0, depth_, false, sets_, totals,
      [&](std::int64_t begin, std::int64_t end, const BlockSums& sums) { add_block(begin, end, sums); });
  for_each_number(totals, out, store_sum);
}

void WindowGradientRunner::resume(const DotShare& share, const float* operand, const float* other,
                                  const std::array<float*, kDotWords>& words) {
  if (channels_last_) return channels_last_->resume(share, operand, other, words);
  start(operand, other);
  take_window_share(
      share, words, sets_, set_size_,
      [&](std::int64_t begin, std::int64_t end, const BlockSums& sums) { add_block(begin, end, sums); },
      [&](float* set, float* word) { for_each_number(set, word, load_sum); },
      [&](float* set, float* word) { for_each_number(set, word, store_sum); });
}

GroupSums WindowGradientRunner::add_groups(std::int64_t first, std::int64_t end, const float* operand,
                                           const float* other) {
  channels_last_->add_groups(first, end, first != 0, operand, other);
  return {channels_last_->sums(), end - first};
}

void WindowGradientRunner::finish(const std::vector<GroupSums>& rest, float* out) {
  channels_last_->finish(rest, out);
}

void WindowGradientRunner::start(const float* operand, const float* other) {
  operand_ = operand;
  other_ = other;
  next_image_ = 0;
}

/// Adds terms [begin, end), of one block, to all sums.
void WindowGradientRunner::add_block(std::int64_t begin, std::int64_t end, const BlockSums& sums) {
  load(begin, end);
  pack(begin, end);
  multiply(begin, end, sums);
}

/// Copies the images that terms [begin, end) lie in to their grids, and computes each term's offset there.
void WindowGradientRunner::load(std::int64_t begin, std::int64_t end) {
  const std::int64_t outputs = gradient_.outputs();
  for (; next_image_ * outputs < end; ++next_image_) {
    gradient_.grid().copy(operand_ + form_.images[static_cast<std::size_t>(next_image_)], first_, end_,
                          grids_ + next_image_ % slots_ * slot_size_);
  }
  const std::int64_t stride = gradient_.grid().row_stride();
  std::int64_t image = begin / outputs;
  std::int64_t row = begin % outputs / form_.columns.outputs;
  std::int64_t column = begin % form_.columns.outputs;
  for (std::int64_t k = begin; k < end; ++k) {
    offsets_[static_cast<std::size_t>(k - begin)] =
        static_cast<std::int32_t>(image % slots_ * slot_size_ + row * stride + column);
    if (++column < form_.columns.outputs) continue;
    column = 0;
    if (++row < form_.rows.outputs) continue;
    row = 0;
    ++image;
  }
}

/// Packs the other side's panels of terms [begin, end). The terms of one row of outputs are one run, or those
/// of a whole image if its rows are contiguous.
void WindowGradientRunner::pack(std::int64_t begin, std::int64_t end) {
  const std::int64_t width = form_.columns.outputs;
  const std::int64_t outputs = gradient_.outputs();
  const bool joined = form_.rows.outputs == 1 || form_.other_row == width * form_.other_column;
  const std::int64_t run = joined ? outputs : width;
  for (std::int64_t k = begin; k < end;) {
    const std::int64_t stop = std::min(end, (k / run + 1) * run);
    const std::int64_t at = k % outputs;
    const float* from = other_ + form_.other_images[static_cast<std::size_t>(k / outputs)] +
                        at / width * form_.other_row + at % width * form_.other_column;
    pack_panels(kernels_, {from, form_.other_column, form_.other_step}, stop - k, form_.count,
                packed_ + (k - begin) * kPanelWidth, kDotBlock * kPanelWidth);
    k = stop;
  }
}

/// Calls visit(tile, at) for every tile; its sums are contiguous from `at` on: [row][lane].
template <class Visit>
void WindowGradientRunner::for_each_tile(Visit visit) const {
  const std::int64_t planes = end_ - first_;
  const RowPanels row_panels(along_taps_ ? form_.columns.taps : planes, kernels_.tile_rows);
  const std::int64_t others = along_taps_ ? planes * form_.rows.taps : gradient_.taps();
  const std::int64_t panels = panel_count(form_.count);
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < row_panels.count; ++p) {
    for (std::int64_t other = 0; other < others; ++other) {
      Tile tile;
      tile.height = row_panels.height(p);
      tile.plane = along_taps_ ? other / form_.rows.taps : row_panels.first_row(p);
      tile.row_tap = along_taps_ ? other % form_.rows.taps : other / form_.columns.taps;
      tile.column_tap = along_taps_ ? row_panels.first_row(p) : other % form_.columns.taps;
      for (tile.panel = 0; tile.panel < panels; tile.panel += kernels_.tile_panels) {
        tile.panels = static_cast<int>(std::min<std::int64_t>(kernels_.tile_panels, panels - tile.panel));
        visit(tile, at);
        at += tile.height * tile.panels * kPanelWidth;
      }
    }
  }
}

/// Adds block [begin, end) to all tiles.
void WindowGradientRunner::multiply(std::int64_t begin, std::int64_t end, const BlockSums& sums) {
  const WindowGrid& grid = gradient_.grid();
  TileTask task;
  task.depth = end - begin;
  task.a_row_stride = along_taps_ ? grid.tap(0, 1) - grid.tap(0, 0) : grid.plane_stride();
  task.b_panel_stride = kDotBlock * kPanelWidth;
  task.out_panel_stride = kPanelWidth;
  for_each_tile([&](const Tile& tile, std::int64_t at) {
    task.a = grids_ + tile.plane * grid.plane_stride() + grid.tap(tile.row_tap, tile.column_tap);
    task.b = packed_ + tile.panel * task.b_panel_stride;
    sums.give(task, at);
    task.out_row_stride = tile.panels * kPanelWidth;
    kernels_.window_rows(task, offsets_.data(), tile.height, tile.panels);
  });
}

/// Calls visit(sum, number) for each of a set's sums and its place in `out`, which is laid out like the
/// outputs.
template <class Visit>
void WindowGradientRunner::for_each_number(float* sums, float* out, Visit visit) const {
  for_each_tile([&](const Tile& tile, std::int64_t at) {
    const std::int64_t columns =
        std::min<std::int64_t>(tile.panels * kPanelWidth, form_.count - tile.panel * kPanelWidth);
    for (int i = 0; i < tile.height; ++i) {
      float* const from = sums + at + i * tile.panels * kPanelWidth;
      const std::int64_t plane = first_ + tile.plane + (along_taps_ ? 0 : i);
      float* to = out + form_.out_planes[static_cast<std::size_t>(plane)] + tile.row_tap * form_.out_row_tap +
                  (tile.column_tap + (along_taps_ ? i : 0)) * form_.out_column_tap +
                  tile.panel * kPanelWidth * form_.out_step;
      for (std::int64_t c = 0; c < columns; ++c) visit(from[c], to[c * form_.out_step]);
    }
  });
}

}  // namespace dgx::kernels::cpu
