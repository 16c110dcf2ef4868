// The layout of a window's positions. Along an axis, places are sorted by their remainder modulo the outputs'
// step, so that one tap's operands of neighbouring outputs are adjacent, at any stride, dilation or exact
// division; positions outside hold the fill.
#include <algorithm>
#include <cstring>

#include "dgx/kernels/arithmetic.h"
#include "dgx/kernels/cpu/window.h"

namespace dgx::kernels::cpu {

GridAxis::GridAxis(const WindowAxis& axis) {
  std::vector<std::int64_t> phases;
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::int64_t t = 0; t < axis.taps; ++t) {
    const std::int64_t at = t * axis.tap_step + axis.offset;
    const std::int64_t place = floor_div(at, axis.step);
    const std::int64_t phase = at - place * axis.step;
    const auto known = std::find(phases.begin(), phases.end(), phase);
    phase_of_.push_back(known - phases.begin());
    if (known == phases.end()) phases.push_back(phase);
    place_of_.push_back(place);
    least = t == 0 ? place : std::min(least, place);
    most = t == 0 ? place : std::max(most, place);
  }
  for (std::int64_t& place : place_of_) place -= least;
  length_ = axis.outputs + most - least;
  row_stride_ = axis.outputs;
  for (const std::int64_t phase : phases) {
    Run run;
    std::int64_t last = 0;
    for (std::int64_t j = 0; j < length_; ++j) {
      const std::int64_t position = (j + least) * axis.step + phase;
      if (position < 0 || position % axis.divisor != 0 || position / axis.divisor >= axis.size) continue;
      const std::int64_t from = position / axis.divisor * axis.stride;
      if (run.count == 0) run.first = j, run.from = from;
      if (run.count == 1) run.place_step = j - run.first, run.from_step = from - run.from;
      ++run.count;
      last = j;
    }
    if (run.count > 0) row_stride_ = std::max({row_stride_, last + 1, length_ - run.first});
    runs_.push_back(run);
  }
}

WindowGrid::WindowGrid(const WindowAxis& rows, const WindowAxis& columns, std::vector<std::int64_t> planes,
                       float fill)
    : rows_(rows), columns_(columns), planes_(std::move(planes)), fill_(fill) {
  phase_stride_ = rows_.length() * row_stride() + std::max<std::int64_t>(0, columns_.length() - row_stride());
  plane_stride_ = rows_.phases() * columns_.phases() * phase_stride_;
  // Planes are read side by side and must not share a cache set.
  if (plane_stride_ % 64 == 0) plane_stride_ += 16;
}

std::int64_t WindowGrid::tap(std::int64_t row_tap, std::int64_t column_tap) const {
  return (rows_.phase_of(row_tap) * columns_.phases() + columns_.phase_of(column_tap)) * phase_stride_ +
         rows_.place_of(row_tap) * row_stride() + columns_.place_of(column_tap);
}

bool WindowGrid::has_even_columns() const {
  for (std::int64_t t = 2; t < columns_.taps(); ++t) {
    if (tap(0, t) - tap(0, t - 1) != tap(0, 1) - tap(0, 0)) return false;
  }
  return true;
}

void WindowGrid::clear(std::int64_t planes, float* grid) const { std::fill_n(grid, size(planes), fill_); }

void WindowGrid::copy(const float* image, std::int64_t first, std::int64_t end, float* grid) const {
  for (std::int64_t p = first; p < end; ++p) {
    const float* const plane = image + planes_[static_cast<std::size_t>(p)];
    float* phase = grid + (p - first) * plane_stride_;
    for (const GridAxis::Run& row : rows_.runs()) {
      for (const GridAxis::Run& column : columns_.runs()) {
        for (std::int64_t r = 0; r < row.count; ++r) {
          const float* from = plane + row.from + r * row.from_step + column.from;
          float* to = phase + (row.first + r * row.place_step) * row_stride() + column.first;
          if (column.place_step == 1 && column.from_step == 1) {
            std::memcpy(to, from, static_cast<std::size_t>(column.count) * sizeof(float));
          } else {
            for (std::int64_t c = 0; c < column.count; ++c)
              to[c * column.place_step] = from[c * column.from_step];
          }
        }
        phase += phase_stride_;
      }
    }
  }
}

}  // namespace dgx::kernels::cpu
