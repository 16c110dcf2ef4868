// A convolution without a matrix of its windows (im2col). The image is copied once into a grid
// (window_grid.cc), in which the operands of neighbouring outputs are adjacent for every term, so that tiles
// can read it. The loops go over pairs of panels of 16 outputs, then row panels of packed weights, then all
// terms in order, at offsets from a table. Outputs between the grid's rows are computed too, and dropped.
// Channels-last images go to channels_last_product.cc.
#include <algorithm>
#include <cstring>

#include "dgx/core/checked.h"
#include "dgx/kernels/cpu/channels_last.h"
#include "dgx/kernels/fold_order.h"
#include "kernel_table.h"
#include "row_panels.h"

namespace dgx::kernels::cpu {
namespace {

constexpr std::int64_t kWidth = 16;

/// Rounded up to whole cache lines.
std::int64_t in_lines(std::int64_t floats) { return ceil_div(floats, kWidth) * kWidth; }

std::int64_t weights_size(const WindowProduct& product) {
  return in_lines(static_cast<std::int64_t>(product.form().weight_rows.size() * product.form().terms.size()));
}
std::int64_t grid_size(const WindowProduct& product) {
  return in_lines(product.grid().size(product.grid().planes()));
}

}  // namespace

WindowProduct::WindowProduct(WindowProductForm form)
    : form_(std::move(form)),
      grid_(form_.rows, form_.columns, form_.planes, form_.fill),
      channels_last_(ChannelsLastProduct::of(form_)) {
  offsets_.reserve(form_.terms.size());
  for (const WindowProductForm::Term& term : form_.terms) {
    offsets_.push_back(static_cast<std::int32_t>(term.plane * grid_.plane_stride() +
                                                 grid_.tap(term.row_tap, term.column_tap)));
  }
}

std::int64_t WindowProduct::columns() const {
  return (form_.rows.outputs - 1) * grid_.row_stride() + form_.columns.outputs;
}

std::int64_t WindowProduct::panels() const { return in_lines(columns()) / kWidth; }

std::int64_t WindowProduct::most_parts() const { return channels_last_ ? channels_last_->lines() : panels(); }

std::int64_t WindowProduct::scratch_size() const {
  if (channels_last_) return channels_last_->scratch_size();
  return weights_size(*this) + grid_size(*this) +
         static_cast<std::int64_t>(form_.out_rows.size()) * panels() * kWidth;
}

WindowProductRunner::WindowProductRunner(const WindowProduct& product, float* scratch)
    : product_(product),
      kernels_(current_kernels()),
      weights_(scratch),
      image_(scratch + weights_size(product)),
      outputs_(image_ + grid_size(product)) {
  if (product.channels_last() != nullptr) {
    channels_last_ = std::make_unique<ChannelsLastProductRunner>(*product.channels_last(), scratch);
    return;
  }
  product.grid().clear(product.grid().planes(), image_);
}

WindowProductRunner::~WindowProductRunner() = default;

/// Packs the weights row panel after row panel, each [term][row].
void WindowProductRunner::set_weights(const float* weights) {
  if (channels_last_) return channels_last_->set_weights(weights);
  const WindowProductForm& form = product_.form();
  const RowPanels row_panels(static_cast<std::int64_t>(form.weight_rows.size()), kernels_.tile_rows);
  float* to = weights_;
  for (std::int64_t p = 0; p < row_panels.count; ++p) {
    const std::int64_t* const rows = form.weight_rows.data() + row_panels.first_row(p);
    const int height = row_panels.height(p);
    for (const WindowProductForm::Term& term : form.terms) {
      for (int i = 0; i < height; ++i) *to++ = weights[rows[i] + term.weight];
    }
  }
}

void WindowProductRunner::set_image(const float* image) {
  if (channels_last_) return channels_last_->set_image(image);
  product_.grid().copy(image, 0, product_.grid().planes(), image_);
}

/// Computes a tile over all blocks of its terms. The sum of an unfinished group is kept in a local tile; `to`
/// holds the sum of the groups before.
void WindowProductRunner::tile(std::int64_t row_panel, std::int64_t panel, int panels, float* to,
                               std::int64_t leading) const {
  const RowPanels row_panels(static_cast<std::int64_t>(product_.form().weight_rows.size()),
                             kernels_.tile_rows);
  const auto depth = static_cast<std::int64_t>(product_.offsets().size());
  const int height = row_panels.height(row_panel);
  alignas(64) float group[32 * kWidth];
  TileTask task;
  task.b = image_ + panel * kWidth;
  task.a_row_stride = 1;
  task.out_panel_stride = kWidth;
  for (std::int64_t k = 0; k < depth; k += kDotBlock) {
    const bool closes = (k + kDotBlock) % kDotGroupPositions == 0 || k + kDotBlock >= depth;
    task.depth = std::min(kDotBlock, depth - k);
    task.a = weights_ + row_panels.first_row(row_panel) * depth + k * height;
    task.group = k % kDotGroupPositions == 0 ? nullptr : group;
    task.accumulate = closes && k >= kDotGroupPositions;
    task.out = closes ? to : group;
    task.out_row_stride = closes ? leading : panels * kWidth;
    kernels_.window_columns(task, product_.offsets().data() + k, height, panels);
  }
}

void WindowProductRunner::run(std::int64_t part, std::int64_t parts, float* out) {
  const std::int64_t all = product_.most_parts();
  const std::int64_t first = part * all / parts;
  const std::int64_t end = (part + 1) * all / parts;
  if (channels_last_) return channels_last_->run(first, end, out);
  run_panels(first, end, out);
}

void WindowProductRunner::run_panels(std::int64_t first, std::int64_t end, float* out) {
  const RowPanels row_panels(static_cast<std::int64_t>(product_.form().weight_rows.size()),
                             kernels_.tile_rows);
  const std::int64_t leading = product_.panels() * kWidth;
  for (std::int64_t panel = first; panel < end; panel += kernels_.tile_panels) {
    const int panels = static_cast<int>(std::min<std::int64_t>(kernels_.tile_panels, end - panel));
    for (std::int64_t row_panel = 0; row_panel < row_panels.count; ++row_panel) {
      tile(row_panel, panel, panels, outputs_ + row_panels.first_row(row_panel) * leading + panel * kWidth,
           leading);
    }
  }
  write(first * kWidth, std::min(product_.columns(), end * kWidth), out);
}

/// Copies grid columns [first, end) of every row to their places in `out`; columns between the rows of
/// outputs are dropped.
void WindowProductRunner::write(std::int64_t first, std::int64_t end, float* out) const {
  const WindowProductForm& form = product_.form();
  const std::int64_t leading = product_.panels() * kWidth;
  const std::int64_t stride = product_.grid().row_stride();
  const std::int64_t width = form.columns.outputs;
  // Rows of outputs that are contiguous on both sides are copied as one.
  const bool whole =
      form.out_column == 1 && (form.rows.outputs == 1 || (stride == width && form.out_row == width));
  for (std::size_t r = 0; r < form.out_rows.size(); ++r) {
    const float* const from = outputs_ + static_cast<std::int64_t>(r) * leading;
    float* const to = out + form.out_rows[r];
    if (whole) {
      std::memcpy(to + first, from + first, static_cast<std::size_t>(end - first) * sizeof(float));
      continue;
    }
    for (std::int64_t row = first / stride; row * stride < end; ++row) {
      const std::int64_t begin = std::max(first - row * stride, std::int64_t{0});
      const std::int64_t stop = std::min(end - row * stride, width);
      float* const place = to + row * form.out_row;
      if (form.out_column == 1 && begin < stop) {
        std::memcpy(place + begin, from + row * stride + begin,
                    static_cast<std::size_t>(stop - begin) * sizeof(float));
      } else {
        for (std::int64_t c = begin; c < stop; ++c) place[c * form.out_column] = from[row * stride + c];
      }
    }
  }
}

}  // namespace dgx::kernels::cpu
