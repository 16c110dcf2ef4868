#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/kernels/cpu/channels_last.h"
#include "dgx/kernels/cpu/matmul.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"
#include "row_panels.h"
#include "window_share.h"

// A weight gradient goes through its terms in blocks of 256, and for each block through the taps. A tap is
// computed in tiles of up to 14 planes by two panels of 16 of the other side's columns. Tiles read both sides
// in place, along the lines of outputs, so that each tap finds the block's numbers in the nearest caches
// again. The sums of the open group and those of all finished groups are kept tile by tile.
//
// A tile of one plane would wait for its additions, one of 16 planes for its loads. With these the three taps
// of a kernel row become the rows or the panels of one tile.
namespace dgx::kernels::cpu {
namespace {

constexpr std::int32_t kTaps = 3;  // of a kernel row, side by side in a tile

/// The taps of `run` that take part.
WindowRun::Rows rows_of(const WindowRun& run, bool all_terms) {
  using Rows = WindowRun::Rows;
  if (run.begin == 0 && run.end == kTaps) return Rows::kAll;
  if (!all_terms && run.begin == 1 && run.end == kTaps) return Rows::kButFirst;
  if (!all_terms && run.begin == 0 && run.end == kTaps - 1) return Rows::kButLast;
  return Rows::kSome;
}

}  // namespace

std::shared_ptr<const ChannelsLastGradient> ChannelsLastGradient::of(const WindowGradientForm& form) {
  const bool whole_panels = form.other_step == 1 && form.count % kPanelWidth == 0;
  if (form.fill != 0 || !whole_panels || form.columns.divisor != 1) return nullptr;
  ChannelsLastGradient gradient(form);
  gradient.columns_ = column_phases(form.columns).front();
  for (std::int64_t row = 0; row < form.rows.outputs; ++row) {
    for (std::int64_t t = 0; t < form.rows.taps; ++t) {
      const auto index = index_inside(form.rows, row, t);
      gradient.row_offsets_.push_back(index ? std::optional(*index * form.rows.stride) : std::nullopt);
    }
  }
  if (form.planes.size() > 1) gradient.plane_step_ = form.planes[1] - form.planes[0];
  for (std::size_t p = 0; p < form.planes.size(); ++p) {
    if (form.planes[p] != form.planes[0] + static_cast<std::int64_t>(p) * gradient.plane_step_)
      return nullptr;
  }
  return std::make_shared<const ChannelsLastGradient>(std::move(gradient));
}

/// Terms of an element: every output of every image.
std::int64_t ChannelsLastGradient::depth() const {
  return static_cast<std::int64_t>(form_.images.size()) * form_.rows.outputs * form_.columns.outputs;
}

/// Chooses the tiles of planes [first, end); `tap_rows` is the kernel table's.
ChannelsLastGradient::Tiles ChannelsLastGradient::tiles_of(std::int64_t first, std::int64_t end,
                                                           int tap_rows) const {
  if (form_.columns.taps != kTaps) return Tiles::kOfPlanes;
  if (end - first == 1) return Tiles::kTapsAreRows;
  const bool one_panel = end - first == kPanelWidth && plane_step_ == 1;
  return one_panel && tap_rows > 0 ? Tiles::kTapsArePanels : Tiles::kOfPlanes;
}

/// Floats of one set of sums: of every plane, tap and column.
std::int64_t ChannelsLastGradient::set_size(std::int64_t planes) const {
  return planes * form_.rows.taps * form_.columns.taps * form_.count;
}

std::int64_t ChannelsLastGradient::scratch_size(std::int64_t planes, std::int64_t sets) const {
  return sets * set_size(planes);
}

ChannelsLastGradientRunner::ChannelsLastGradientRunner(const ChannelsLastGradient& gradient,
                                                       std::int64_t first, std::int64_t end, float* scratch)
    : gradient_(gradient),
      form_(gradient.form_),
      kernels_(current_kernels()),
      first_(first),
      end_(end),
      depth_(gradient.depth()),
      tiles_(gradient.tiles_of(first, end, kernels_.tap_rows)),
      groups_(scratch),
      sums_(scratch + gradient.set_size(end - first)) {}

void ChannelsLastGradientRunner::run(const float* operand, const float* other, float* out) {
  add_groups(0, ceil_div(depth_, kDotGroupPositions), false, operand, other);
  for_each_number(sums_, out, store_sum);
}

void ChannelsLastGradientRunner::resume(const DotShare& share, const float* operand, const float* other,
                                        const std::array<float*, kDotWords>& words) {
  operand_ = operand;
  other_ = other;
  take_window_share(
      share, words, groups_, gradient_.set_size(end_ - first_),
      [&](std::int64_t begin, std::int64_t end, const BlockSums& sums) { add_block(begin, end, sums); },
      [&](float* set, float* word) { for_each_number(set, word, load_sum); },
      [&](float* set, float* word) { for_each_number(set, word, store_sum); });
}

void ChannelsLastGradientRunner::add_groups(std::int64_t first, std::int64_t end, bool each,
                                            const float* operand, const float* other) {
  operand_ = operand;
  other_ = other;
  const std::int64_t size = gradient_.set_size(end_ - first_);
  const std::int64_t last = std::min(depth_, end * kDotGroupPositions);
  const std::int64_t step = each ? kDotGroupPositions : depth_;
  float* sums = sums_;
  for (std::int64_t k = first * kDotGroupPositions; k < last; k += step, sums += size) {
    add_groups_of_terms(
        k, std::min(last, k + step), false, groups_, sums,
        [&](std::int64_t begin, std::int64_t stop, const BlockSums& to) { add_block(begin, stop, to); });
  }
}

/// Adds the terms [begin, end) of one block to all sums.
void ChannelsLastGradientRunner::add_block(std::int64_t begin, std::int64_t end, const BlockSums& sums) {
  cut_pieces(begin, end);
  const bool all_terms = !is_finite(other_);
  if (tiles_ == ChannelsLastGradient::Tiles::kOfPlanes) {
    for (std::int64_t tap = 0; tap < form_.rows.taps * form_.columns.taps; ++tap) {
      find_runs(tap / form_.columns.taps, tap % form_.columns.taps, all_terms);
      multiply(tap, sums);
    }
    return;
  }
  for (std::int64_t row_tap = 0; row_tap < form_.rows.taps; ++row_tap) {
    find_tap_runs(row_tap, all_terms);
    multiply_taps(row_tap, sums);
  }
}

void ChannelsLastGradientRunner::finish(const std::vector<GroupSums>& rest, float* out) {
  const std::int64_t size = gradient_.set_size(end_ - first_);
  for (const GroupSums& more : rest) {
    for (std::int64_t set = 0; set < more.sets; ++set) {
      const float* const from = more.sums + set * size;
      for (std::int64_t i = 0; i < size; ++i) sums_[i] += from[i];
    }
  }
  for_each_number(sums_, out, store_sum);
}

/// Cuts terms [begin, end) into pieces that each lie in one line of outputs.
void ChannelsLastGradientRunner::cut_pieces(std::int64_t begin, std::int64_t end) {
  pieces_.clear();
  const std::int64_t width = form_.columns.outputs;
  for (std::int64_t k = begin; k < end;) {
    const std::int64_t line = k / width;
    const std::int64_t stop = std::min(end, (line + 1) * width);
    pieces_.push_back(
        {line / form_.rows.outputs, line % form_.rows.outputs, k - line * width, stop - line * width});
    k = stop;
  }
}

/// True if all numbers that the pieces take from the other side are finite.
bool ChannelsLastGradientRunner::is_finite(const float* other) const {
  return std::all_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    const float* const line =
        other + form_.other_images[static_cast<std::size_t>(piece.image)] + piece.row * form_.other_row;
    return kernels_.all_finite(line + piece.begin * form_.other_column, piece.end - piece.begin, form_.count,
                               form_.other_column);
  });
}

/// Sets runs_ to the terms of a tap, in order. Terms outside are left out or, if `all_terms`, multiply zeros.
void ChannelsLastGradientRunner::find_runs(std::int64_t row_tap, std::int64_t column_tap, bool all_terms) {
  runs_.clear();
  const ColumnPhase::Tap& tap = gradient_.columns_.taps[static_cast<std::size_t>(column_tap)];
  for (const Piece& piece : pieces_) {
    const auto row = gradient_.row_offsets_[static_cast<std::size_t>(piece.row * form_.rows.taps + row_tap)];
    const std::int64_t begin = row ? std::clamp(tap.begin, piece.begin, piece.end) : piece.end;
    const std::int64_t end = row ? std::clamp(tap.end, begin, piece.end) : piece.end;
    const std::int64_t b =
        form_.other_images[static_cast<std::size_t>(piece.image)] + piece.row * form_.other_row;
    const auto add_zeros = [&](std::int64_t from, std::int64_t to) {
      if (all_terms && from < to)
        runs_.push_back({0, b + from * form_.other_column, to - from, WindowRun::Rows::kSome, 0, 0});
    };
    add_zeros(piece.begin, begin);
    if (begin < end) {
      const std::int64_t a = form_.images[static_cast<std::size_t>(piece.image)] + *row +
                             (tap.index + begin * form_.columns.step) * form_.columns.stride;
      add_run(a, b + begin * form_.other_column, end - begin);
    }
    add_zeros(end, piece.end);
  }
}

/// Adds a run, as part of the last one if it continues that without a gap on both sides.
void ChannelsLastGradientRunner::add_run(std::int64_t a, std::int64_t b, std::int64_t count) {
  if (!runs_.empty() && runs_.back().rows == WindowRun::Rows::kAll) {
    WindowRun& last = runs_.back();
    const bool follows = last.a + last.count * form_.columns.step * form_.columns.stride == a &&
                         last.b + last.count * form_.other_column == b;
    if (follows) {
      last.count += count;
      return;
    }
  }
  runs_.push_back({a, b, count, WindowRun::Rows::kAll, 0, 0});
}

/// Calls visit(plane, height, panel, panels, at) for each tile of one tap; its sums are at `at`: [row][lane].
template <class Visit>
void ChannelsLastGradientRunner::for_each_tile(Visit visit) const {
  const RowPanels row_panels(end_ - first_, kernels_.tile_rows);
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < row_panels.count; ++p) {
    for (std::int64_t panel = 0; panel < form_.count / kPanelWidth; panel += kernels_.tile_panels) {
      const int panels =
          static_cast<int>(std::min<std::int64_t>(kernels_.tile_panels, form_.count / kPanelWidth - panel));
      visit(first_ + row_panels.first_row(p), row_panels.height(p), panel, panels, at);
      at += row_panels.height(p) * panels * kPanelWidth;
    }
  }
}

/// Adds the terms of a block, runs_, to a tap's sums.
void ChannelsLastGradientRunner::multiply(std::int64_t tap, const BlockSums& sums) {
  const std::int64_t tap_at = tap * (end_ - first_) * form_.count;
  TileTask task;
  task.a_row_stride = gradient_.plane_step_;
  task.a_step = form_.columns.step * form_.columns.stride;
  task.b_step = form_.other_column;
  task.b_panel_stride = kPanelWidth;
  task.out_panel_stride = kPanelWidth;
  for_each_tile([&](std::int64_t plane, int height, std::int64_t panel, int panels, std::int64_t at) {
    task.a = operand_ + form_.planes[static_cast<std::size_t>(plane)];
    task.b = other_ + panel * kPanelWidth;
    sums.give(task, tap_at + at);
    task.out_row_stride = panels * kPanelWidth;
    kernels_.window_runs(task, runs_.data(), runs_.size(), height, panels);
  });
}

/// Calls visit(sum, number) for each of a set's sums and its place in `out`, which is laid out like the
/// outputs.
template <class Visit>
void ChannelsLastGradientRunner::for_each_number(float* sums, float* out, Visit visit) const {
  if (tiles_ != ChannelsLastGradient::Tiles::kOfPlanes) return for_each_tap_number(sums, out, visit);
  for (std::int64_t tap = 0; tap < form_.rows.taps * form_.columns.taps; ++tap) {
    const std::int64_t tap_at = tap * (end_ - first_) * form_.count;
    float* const to =
        out + tap / form_.columns.taps * form_.out_row_tap + tap % form_.columns.taps * form_.out_column_tap;
    for_each_tile([&](std::int64_t plane, int height, std::int64_t panel, int panels, std::int64_t at) {
      for (int i = 0; i < height; ++i) {
        float* const from = sums + tap_at + at + i * panels * kPanelWidth;
        float* const row =
            to + form_.out_planes[static_cast<std::size_t>(plane + i)] + panel * kPanelWidth * form_.out_step;
        for (std::int64_t c = 0; c < panels * kPanelWidth; ++c) visit(from[c], row[c * form_.out_step]);
      }
    });
  }
}

/// find_runs() for the three taps of a kernel row together: runs are cut wherever one of the taps enters or
/// leaves the inside.
void ChannelsLastGradientRunner::find_tap_runs(std::int64_t row_tap, bool all_terms) {
  runs_.clear();
  const std::vector<ColumnPhase::Tap>& taps = gradient_.columns_.taps;
  for (const Piece& piece : pieces_) {
    const auto row = gradient_.row_offsets_[static_cast<std::size_t>(piece.row * form_.rows.taps + row_tap)];
    const std::int64_t other =
        form_.other_images[static_cast<std::size_t>(piece.image)] + piece.row * form_.other_row;
    const std::int64_t operand = form_.images[static_cast<std::size_t>(piece.image)] + row.value_or(0) +
                                 taps[0].index * form_.columns.stride;
    for (std::int64_t begin = piece.begin, end = begin; begin < piece.end; begin = end) {
      end = piece.end;
      WindowRun run;
      for (std::int32_t t = kTaps; row && t-- > 0;) {
        const ColumnPhase::Tap& tap = taps[static_cast<std::size_t>(t)];
        for (const std::int64_t change : {tap.begin, tap.end})
          end = change > begin ? std::min(end, change) : end;
        if (begin < tap.begin || begin >= tap.end) continue;
        run.end = run.end == 0 ? t + 1 : run.end;
        run.begin = t;
      }
      if (run.begin == run.end && !all_terms) continue;
      run.a = operand + begin * form_.columns.step * form_.columns.stride;
      run.b = other + begin * form_.other_column;
      if (tiles_ == ChannelsLastGradient::Tiles::kTapsArePanels) std::swap(run.a, run.b);
      run.count = end - begin;
      run.rows = rows_of(run, all_terms);
      runs_.push_back(run);
    }
  }
}

/// Calls visit(first, count, at) for each tile of the taps of a kernel row: `count` columns, or panels of
/// columns, from `first` on. Its sums start at `at`: [column][tap][plane] or, if taps are rows,
/// [tap][column].
template <class Visit>
void ChannelsLastGradientRunner::for_each_tap_tile(Visit visit) const {
  const bool panels = tiles_ == ChannelsLastGradient::Tiles::kTapsAreRows;
  const std::int64_t all = panels ? form_.count / kPanelWidth : form_.count;
  const RowPanels row_panels(all, panels ? kernels_.tile_panels : kernels_.tap_rows);
  for (std::int64_t p = 0; p < row_panels.count; ++p) {
    visit(row_panels.first_row(p), row_panels.height(p), row_panels.first_row(p) * kTaps * kPanelWidth);
  }
}

/// multiply() for the three taps of a kernel row together.
void ChannelsLastGradientRunner::multiply_taps(std::int64_t row_tap, const BlockSums& sums) {
  const std::int64_t taps_at = row_tap * kTaps * (end_ - first_) * form_.count;
  const std::int64_t tap_stride =
      (gradient_.columns_.taps[1].index - gradient_.columns_.taps[0].index) * form_.columns.stride;
  const bool rows = tiles_ == ChannelsLastGradient::Tiles::kTapsAreRows;
  const float* const planes = operand_ + form_.planes[static_cast<std::size_t>(first_)];
  TileTask task;
  task.a_step = form_.other_column;
  task.b_step = form_.columns.step * form_.columns.stride;
  if (rows) std::swap(task.a_step, task.b_step);
  task.a_row_stride = tap_stride;
  task.b_panel_stride = rows ? kPanelWidth : tap_stride;
  task.out_panel_stride = kPanelWidth;
  for_each_tap_tile([&](std::int64_t first, int count, std::int64_t at) {
    task.a = rows ? planes : other_ + first;
    task.b = rows ? other_ + first * kPanelWidth : planes;
    sums.give(task, taps_at + at);
    task.out_row_stride = (rows ? count : kTaps) * kPanelWidth;
    if (rows) return kernels_.window_runs(task, runs_.data(), runs_.size(), kTaps, count);
    kernels_.window_taps(task, runs_.data(), runs_.size(), count);
  });
}

template <class Visit>
void ChannelsLastGradientRunner::for_each_tap_number(float* sums, float* out, Visit visit) const {
  const bool rows = tiles_ == ChannelsLastGradient::Tiles::kTapsAreRows;
  for (std::int64_t row_tap = 0; row_tap < form_.rows.taps; ++row_tap) {
    for_each_tap_tile([&](std::int64_t first, int count, std::int64_t) {
      for (std::int64_t i = 0; i < kTaps * count * kPanelWidth; ++i) {
        const std::int64_t outer = i / kPanelWidth;
        const std::int64_t lane = i % kPanelWidth;
        const std::int64_t tap = rows ? outer / count : outer % kTaps;
        const std::int64_t column =
            rows ? (first + outer % count) * kPanelWidth + lane : first + outer / kTaps;
        const std::int64_t plane = first_ + (rows ? 0 : lane);
        visit(*sums++, out[row_tap * form_.out_row_tap + tap * form_.out_column_tap +
                           form_.out_planes[static_cast<std::size_t>(plane)] + column * form_.out_step]);
      }
    });
  }
}

}  // namespace dgx::kernels::cpu
