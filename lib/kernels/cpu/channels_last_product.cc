#include <algorithm>
#include <cstring>
#include <numeric>

#include "dgx/core/checked.h"
#include "dgx/kernels/arithmetic.h"
#include "dgx/kernels/cpu/channels_last.h"
#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"
#include "row_panels.h"

// The loops of a product, outermost first: lines of outputs; phases; row panels of up to 14 positions; pairs
// of panels of 16 output channels. A tile takes its terms (kernel row, kernel column, channel) in order; for
// each it reads one channel of 14 positions and two panels of weights, and does 28 vector multiplications.
// The weights are packed once: they and the three lines of the operand that a line needs stay in the nearest
// caches.
namespace dgx::kernels::cpu {
namespace {

/// Distance, in lines, at which the image is prefetched ahead of the current line. Measured with ResNet-20:
/// 2, 5 and 10 are alike.
constexpr std::int64_t kLinesAhead = 5;

}  // namespace

std::optional<std::int64_t> index_inside(const WindowAxis& axis, std::int64_t output, std::int64_t tap) {
  const std::int64_t position = output * axis.step + tap * axis.tap_step + axis.offset;
  if (position < 0 || position % axis.divisor != 0 || position / axis.divisor >= axis.size)
    return std::nullopt;
  return position / axis.divisor;
}

std::vector<ColumnPhase> column_phases(const WindowAxis& axis) {
  std::vector<ColumnPhase> phases;
  const std::int64_t period = axis.divisor / std::gcd(axis.divisor, axis.step);
  for (std::int64_t first = 0; first < std::min(period, axis.outputs); ++first) {
    ColumnPhase phase{
        first, period, ceil_div(axis.outputs - first, period), period * axis.step / axis.divisor, {}};
    for (std::int64_t t = 0; t < axis.taps; ++t) {
      const std::int64_t position = first * axis.step + t * axis.tap_step + axis.offset;
      ColumnPhase::Tap tap;
      tap.index = floor_div(position, axis.divisor);
      tap.meets = tap.index * axis.divisor == position;
      if (tap.meets) {
        tap.begin = std::clamp(-floor_div(tap.index, phase.move), std::int64_t{0}, phase.count);
        tap.end = std::clamp(-floor_div(tap.index - axis.size, phase.move), tap.begin, phase.count);
      }
      phase.taps.push_back(tap);
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::shared_ptr<const ChannelsLastProduct> ChannelsLastProduct::of(const WindowProductForm& form) {
  constexpr std::size_t kLeastRows = 8;  // output channels: with fewer, most of a panel is wasted
  if (form.fill != 0 || form.weight_rows.size() < kLeastRows) return nullptr;
  for (std::size_t r = 0; r < form.out_rows.size(); ++r) {
    if (form.out_rows[r] != static_cast<std::int64_t>(r)) return nullptr;
  }
  ChannelsLastProduct product;
  if (!product.cut_segments(form)) return nullptr;
  product.rows_ = form.rows;
  product.columns_ = form.columns;
  product.phases_ = column_phases(form.columns);
  product.weight_rows_ = form.weight_rows;
  product.out_row_ = form.out_row;
  product.out_column_ = form.out_column;
  product.sort_lines();
  return std::make_shared<const ChannelsLastProduct>(std::move(product));
}

/// Cuts the terms into segments and blocks. False if the planes are not evenly spaced, or if a tap's terms do
/// not take them in order.
bool ChannelsLastProduct::cut_segments(const WindowProductForm& form) {
  depth_ = static_cast<std::int64_t>(form.terms.size());
  first_plane_ = form.planes.front();
  plane_step_ = form.planes.size() > 1 ? form.planes[1] - form.planes[0] : 1;
  for (std::size_t p = 0; p < form.planes.size(); ++p) {
    if (form.planes[p] != first_plane_ + static_cast<std::int64_t>(p) * plane_step_) return false;
  }
  std::int64_t tap_runs = 0;
  for (std::int64_t k = 0; k < depth_; ++k) {
    const WindowProductForm::Term& term = form.terms[static_cast<std::size_t>(k)];
    weights_.push_back(term.weight);
    if (k % kDotBlock == 0) block_begin_.push_back(segments_.size());
    const bool follows = k > 0 && segments_.back().row_tap == term.row_tap &&
                         segments_.back().column_tap == term.column_tap &&
                         segments_.back().plane + segments_.back().count == term.plane;
    if (!follows) ++tap_runs;
    if (follows && k % kDotBlock != 0) {
      ++segments_.back().count;
    } else {
      segments_.push_back({term.row_tap, term.column_tap, term.plane, k, 1});
    }
  }
  block_begin_.push_back(segments_.size());
  return tap_runs <= form.rows.taps * form.columns.taps;
}

/// Sorts lines into kinds: lines of one kind meet the same row taps inside, at the same offsets. Nearly all
/// lines are of one kind.
void ChannelsLastProduct::sort_lines() {
  for (std::int64_t line = 0; line < rows_.outputs; ++line) {
    LineKind kind;
    std::optional<std::int64_t> base;
    for (std::int64_t t = 0; t < rows_.taps; ++t) {
      const auto index = index_inside(rows_, line, t);
      if (index && !base) base = *index * rows_.stride;
      kind.row_offsets.push_back(index ? std::optional(*index * rows_.stride - *base) : std::nullopt);
    }
    const auto known = std::find(kinds_.begin(), kinds_.end(), kind);
    lines_.push_back({base.value_or(0), static_cast<std::size_t>(known - kinds_.begin())});
    if (known == kinds_.end()) kinds_.push_back(std::move(kind));
  }
}

std::int64_t ChannelsLastProduct::scratch_size() const {
  return PackedMatrix::size(depth_, static_cast<std::int64_t>(weight_rows_.size()));
}

ChannelsLastProductRunner::ChannelsLastProductRunner(const ChannelsLastProduct& product, float* scratch)
    : product_(product), kernels_(current_kernels()), weights_(scratch) {
  const bool one_panel = panel_count(static_cast<std::int64_t>(product.weight_rows_.size())) == 1;
  for (const ColumnPhase& phase : product.phases_) {
    const RowPanels row_panels(phase.count, one_panel ? kernels_.one_panel_rows : kernels_.tile_rows);
    for (std::int64_t p = 0; p < row_panels.count; ++p)
      row_panels_.push_back({&phase, row_panels.first_row(p), row_panels.height(p)});
  }
}

void ChannelsLastProductRunner::set_weights(const float* weights) {
  const auto channels = static_cast<std::int64_t>(product_.weight_rows_.size());
  const std::int64_t stride = panel_stride(product_.depth());
  for (std::int64_t panel = 0; panel < panel_count(channels); ++panel) {
    float* const to = weights_ + panel * stride;
    for (std::int64_t lane = 0; lane < kPanelWidth; ++lane) {
      const std::int64_t channel = panel * kPanelWidth + lane;
      const float* const from =
          weights + (channel < channels ? product_.weight_rows_[static_cast<std::size_t>(channel)] : 0);
      for (std::int64_t k = 0; k < product_.depth(); ++k) {
        to[k * kPanelWidth + lane] =
            channel < channels ? from[product_.weights_[static_cast<std::size_t>(k)]] : 0.0F;
      }
    }
  }
  all_terms_ = false;
  for (std::int64_t panel = 0; panel < panel_count(channels); ++panel) {
    all_terms_ = all_terms_ ||
                 !kernels_.all_finite(weights_ + panel * stride, product_.depth(), kPanelWidth, kPanelWidth);
  }
  runs_.clear();
  tile_runs_.clear();
  for (const ChannelsLastProduct::LineKind& kind : product_.kinds_) {
    for (const RowPanel& row_panel : row_panels_) {
      for (std::size_t block = 0; block + 1 < product_.block_begin_.size(); ++block) {
        tile_runs_.push_back({runs_.size(), 0});
        find_runs(kind, row_panel, block);
        tile_runs_.back().end = runs_.size();
      }
    }
  }
}

/// Appends to runs_ the terms of a block that the tiles of a row panel multiply, on lines of one kind.
void ChannelsLastProductRunner::find_runs(const ChannelsLastProduct::LineKind& kind,
                                          const RowPanel& row_panel, std::size_t block) {
  const std::size_t first = runs_.size();
  for (std::size_t s = product_.block_begin_[block]; s < product_.block_begin_[block + 1]; ++s) {
    const ChannelsLastProduct::Segment& segment = product_.segments_[s];
    const std::optional<std::int64_t> row = kind.row_offsets[static_cast<std::size_t>(segment.row_tap)];
    const ColumnPhase::Tap& tap = row_panel.phase->taps[static_cast<std::size_t>(segment.column_tap)];
    const int height = row_panel.height;
    const std::int64_t begin = std::clamp<std::int64_t>(tap.begin - row_panel.first, 0, height);
    const std::int64_t end =
        row && tap.meets ? std::clamp<std::int64_t>(tap.end - row_panel.first, begin, height) : begin;
    if (begin == end && !all_terms_) continue;
    WindowRun run;
    run.count = segment.count;
    run.b = (segment.term - static_cast<std::int64_t>(block) * kDotBlock) * kPanelWidth;
    run.begin = static_cast<std::int32_t>(begin);
    run.end = static_cast<std::int32_t>(end);
    if (begin < end) {
      run.a = *row + (tap.index + row_panel.first * row_panel.phase->move) * product_.columns_.stride +
              product_.first_plane_ + segment.plane * product_.plane_step_;
    }
    run.rows = rows_of(run, height);
    if (runs_.size() == first || !joins(runs_.back(), run)) runs_.push_back(run);
  }
}

WindowRun::Rows ChannelsLastProductRunner::rows_of(const WindowRun& run, int height) const {
  using Rows = WindowRun::Rows;
  if (run.begin == 0 && run.end == height) return Rows::kAll;
  if (!all_terms_ && run.begin == 1 && run.end == height) return Rows::kButFirst;
  if (!all_terms_ && run.begin == 0 && run.end == height - 1) return Rows::kButLast;
  return Rows::kSome;
}

/// Extends `last` by `run` and returns true if the terms of `run` continue it in both operands, as
/// neighbouring taps often do.
bool ChannelsLastProductRunner::joins(WindowRun& last, const WindowRun& run) const {
  const bool follows = last.begin == run.begin && last.end == run.end &&
                       last.a + last.count * product_.plane_step_ == run.a &&
                       last.b + last.count * kPanelWidth == run.b;
  if (follows) last.count += run.count;
  return follows;
}

/// Computes a tile over all blocks of its terms. The sum of an unfinished group is kept in a local tile, that
/// of the groups before in the outputs.
void ChannelsLastProductRunner::tile(std::int64_t line, std::size_t number, std::int64_t panel, int panels,
                                     float* out) const {
  const RowPanel& row_panel = row_panels_[number];
  const ChannelsLastProduct::Line& place = product_.lines_[static_cast<std::size_t>(line)];
  const auto channels = static_cast<std::int64_t>(product_.weight_rows_.size());
  const std::int64_t columns = std::min(panels * kPanelWidth, channels - panel * kPanelWidth);
  alignas(64) float group[32 * kPanelWidth];
  alignas(64) float edge[32 * kPanelWidth];  // of the last, partial panel
  const bool whole = columns == panels * kPanelWidth;
  const std::int64_t position_step = row_panel.phase->step * product_.out_column_;
  float* const at =
      out + line * product_.out_row_ +
      (row_panel.phase->first + row_panel.first * row_panel.phase->step) * product_.out_column_ +
      panel * kPanelWidth;
  TileTask task;
  task.a = image_ + place.base;
  task.a_row_stride = row_panel.phase->move * product_.columns_.stride;
  task.a_step = product_.plane_step_;
  task.b_step = kPanelWidth;
  task.b_panel_stride = panel_stride(product_.depth());
  task.out_panel_stride = kPanelWidth;
  const std::size_t blocks = product_.block_begin_.size() - 1;
  const TileRuns* const runs_of = tile_runs_.data() + (place.kind * row_panels_.size() + number) * blocks;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::int64_t k = static_cast<std::int64_t>(block) * kDotBlock;
    const bool closes = (k + kDotBlock) % kDotGroupPositions == 0 || block + 1 == blocks;
    task.b = weights_ + panel * task.b_panel_stride + k * kPanelWidth;
    task.group = k % kDotGroupPositions == 0 ? nullptr : group;
    task.accumulate = closes && k >= kDotGroupPositions;
    task.out = !closes ? group : whole ? at : edge;
    task.out_row_stride = closes && whole ? position_step : panels * kPanelWidth;
    kernels_.window_runs(task, runs_.data() + runs_of[block].begin, runs_of[block].end - runs_of[block].begin,
                         row_panel.height, panels);
  }
  for (std::int64_t i = 0; !whole && i < row_panel.height; ++i) {
    std::memcpy(at + i * position_step, edge + i * panels * kPanelWidth,
                static_cast<std::size_t>(columns) * sizeof(float));
  }
}

/// Prefetches a line of the image that will be read soon, and the next line of outputs: a tile's work is too
/// short to hide the latency of memory.
void ChannelsLastProductRunner::fetch_ahead(std::int64_t line, float* out) const {
  constexpr std::int64_t kLine = 16;  // floats
  const auto channels = static_cast<std::int64_t>(product_.weight_rows_.size());
  const ChannelsLastProduct::Line& place = product_.lines_[static_cast<std::size_t>(line)];
  const float* const from = image_ + place.base + kLinesAhead * product_.rows_.stride;
  const std::int64_t floats = product_.columns_.size * product_.columns_.stride;
  for (std::int64_t at = 0; at < floats; at += kLine) __builtin_prefetch(from + at, 0, 2);
  float* const to = out + (line + 1) * product_.out_row_;
  for (std::int64_t at = 0; at < product_.columns_.outputs * channels; at += kLine)
    __builtin_prefetch(to + at, 1, 2);
}

void ChannelsLastProductRunner::run(std::int64_t first, std::int64_t end, float* out) const {
  const std::int64_t panels = panel_count(static_cast<std::int64_t>(product_.weight_rows_.size()));
  for (std::int64_t line = first; line < end; ++line) {
    fetch_ahead(line, out);
    for (std::size_t row_panel = 0; row_panel < row_panels_.size(); ++row_panel) {
      for (std::int64_t panel = 0; panel < panels; panel += kernels_.tile_panels) {
        tile(line, row_panel, panel,
             static_cast<int>(std::min<std::int64_t>(kernels_.tile_panels, panels - panel)), out);
      }
    }
  }
}

}  // namespace dgx::kernels::cpu
