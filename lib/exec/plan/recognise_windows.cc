#include <algorithm>

#include "plan/recognise.h"

namespace dgx::exec {

using kernels::CompiledAccess;
using kernels::CompiledCoordinate;
using kernels::CompiledPrimitive;
using kernels::CompiledTerm;
using kernels::Kind;
using kernels::ValueIndex;
using kernels::cpu::WindowAxis;

namespace {

constexpr std::int64_t kMostTerms = std::int64_t{1} << 20;    // entries of a table
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26;  // numbers of a grid
constexpr int kNone = -1;

/// An index of the primitive is named by its slot: iteration indices first, then the fold's.
bool is_fold(int slot) { return slot >= kernels::kFirstFoldSlot; }

/// A dot of two accesses, of which `x` may read through windows and `other` must be linear.
class Candidate {
 public:
  Candidate(const CompiledPrimitive& primitive, std::size_t windowed)
      : primitive_(primitive), x_(primitive.accesses[windowed]), other_(primitive.accesses[1 - windowed]) {}

  /// Finds the windowed coordinates. `outputs_are_folds`: windows move along fold indices and taps are
  /// outputs (a weight gradient), instead of the other way round.
  bool find_axes(bool outputs_are_folds) {
    folds_ = outputs_are_folds;
    if (!other_.is_linear || x_.dtype != DType::kF32 || other_.dtype != DType::kF32) return false;
    for (const CompiledCoordinate& c : x_.coordinates) {
      for (const CompiledTerm& term : c.terms) {
        if (term.access >= 0) return false;
      }
    }
    const std::vector<int> moving = window_indices();
    for (std::size_t c = 0; c < x_.coordinates.size(); ++c) {
      const bool moves =
          std::any_of(moving.begin(), moving.end(), [&](int slot) { return mentions(c, slot); });
      if (!moves && is_plain(c)) continue;
      if (!add_axis(c, moving)) return false;
    }
    if (axes_.size() > 2 || axes_.empty()) return false;
    // The column axis is the one whose outputs are neighbours in memory.
    if (axes_.size() == 1) axes_.insert(axes_.begin(), Axis{});
    if (axes_[0].output > axes_[1].output) std::swap(axes_[0], axes_[1]);
    return indices_are_distinct();
  }

  struct Axis {
    WindowAxis axis;
    int output = kNone, tap = kNone;  ///< index slots
  };
  [[nodiscard]] const Axis& rows() const { return axes_[0]; }
  [[nodiscard]] const Axis& columns() const { return axes_[1]; }
  [[nodiscard]] const CompiledAccess& x() const { return x_; }
  [[nodiscard]] const CompiledAccess& other() const { return other_; }

  [[nodiscard]] std::int64_t extent(int slot) const {
    if (slot == kNone) return 1;
    return is_fold(slot) ? primitive_.fold[static_cast<std::size_t>(slot - kernels::kFirstFoldSlot)]
                         : primitive_.iteration[static_cast<std::size_t>(slot)];
  }
  /// Iteration or fold indices of extent above 1, outermost first.
  [[nodiscard]] std::vector<int> indices(bool of_fold) const {
    std::vector<int> out;
    const std::size_t count = of_fold ? primitive_.fold.size() : primitive_.iteration.size();
    for (std::size_t d = 0; d < count; ++d) {
      const int slot = static_cast<int>(d) + (of_fold ? kernels::kFirstFoldSlot : 0);
      if (extent(slot) > 1) out.push_back(slot);
    }
    return out;
  }
  [[nodiscard]] bool in_x(int slot) const {
    for (std::size_t c = 0; c < x_.coordinates.size(); ++c) {
      if (mentions(c, slot)) return true;
    }
    return false;
  }
  [[nodiscard]] bool on_axis(int slot) const {
    return std::any_of(axes_.begin(), axes_.end(),
                       [slot](const Axis& a) { return a.output == slot || a.tap == slot; });
  }
  [[nodiscard]] std::int64_t other_stride(int slot) const {
    std::int64_t stride = 0;
    for (const CompiledTerm& term : other_.linear) stride += term.slot == slot ? term.coefficient : 0;
    return stride;
  }
  /// The stride in x of an index that is on no axis.
  [[nodiscard]] std::int64_t x_stride(int slot) const {
    std::int64_t stride = 0;
    for (const CompiledCoordinate& c : x_.coordinates) {
      for (const CompiledTerm& term : c.terms) stride += term.slot == slot ? term.coefficient * c.stride : 0;
    }
    return stride;
  }
  /// The sum of the constants of the coordinates on no axis.
  [[nodiscard]] std::int64_t x_base() const {
    std::int64_t base = 0;
    for (std::size_t c = 0; c < x_.coordinates.size(); ++c) {
      if (!windowed_[c]) base += x_.coordinates[c].constant * x_.coordinates[c].stride;
    }
    return base;
  }
  [[nodiscard]] std::int64_t out_stride(int slot) const {
    return slot == kNone ? 0 : row_major_strides(primitive_.iteration)[static_cast<std::size_t>(slot)];
  }

 private:
  [[nodiscard]] bool mentions(std::size_t c, int slot) const {
    const auto& terms = x_.coordinates[c].terms;
    return extent(slot) > 1 && std::any_of(terms.begin(), terms.end(), [slot](const CompiledTerm& t) {
             return t.slot == slot && t.coefficient != 0;
           });
  }

  /// True if the coordinate has no division and is inside for all indices.
  [[nodiscard]] bool is_plain(std::size_t c) const {
    const CompiledCoordinate& coordinate = x_.coordinates[c];
    std::int64_t least = coordinate.constant;
    std::int64_t most = coordinate.constant;
    for (const CompiledTerm& term : coordinate.terms) {
      const std::int64_t reach = term.coefficient * (extent(term.slot) - 1);
      (reach < 0 ? least : most) += reach;
    }
    return coordinate.divisor == 1 && least >= 0 && most < coordinate.size;
  }

  /// The indices along which windows move: the innermost one or two of x that do not move the other side or,
  /// if folds_, that are the fold's. The outer of two could be a mere count of images: it must have a window
  /// of its own, or a third index outside it.
  [[nodiscard]] std::vector<int> window_indices() const {
    std::vector<int> candidates;
    for (const int slot : indices(folds_)) {
      if (in_x(slot) && (folds_ || other_stride(slot) == 0)) candidates.push_back(slot);
    }
    if (candidates.size() < 2) return candidates;
    const int outer = candidates[candidates.size() - 2];
    bool has_window = candidates.size() > 2;
    for (std::size_t c = 0; c < x_.coordinates.size(); ++c) {
      if (!mentions(c, outer)) continue;
      const auto& terms = x_.coordinates[c].terms;
      has_window =
          has_window || !is_plain(c) || std::any_of(terms.begin(), terms.end(), [&](const CompiledTerm& t) {
            return is_fold(t.slot) != folds_ && extent(t.slot) > 1;
          });
    }
    if (!has_window) return {candidates.back()};
    return {outer, candidates.back()};
  }

  bool add_axis(std::size_t c, const std::vector<int>& moving) {
    const CompiledCoordinate& coordinate = x_.coordinates[c];
    if (coordinate.division == kernels::Coordinate::Division::kFloor && coordinate.divisor != 1) return false;
    Axis axis;
    axis.axis.offset = coordinate.constant;
    axis.axis.divisor = coordinate.divisor;
    axis.axis.size = coordinate.size;
    axis.axis.stride = coordinate.stride;
    for (const CompiledTerm& term : coordinate.terms) {
      if (extent(term.slot) == 1 || term.coefficient == 0) continue;
      const bool moves = std::find(moving.begin(), moving.end(), term.slot) != moving.end();
      int& place = moves ? axis.output : axis.tap;
      // Windows move forwards; a tap is of the other kind of index.
      if (place != kNone || (moves && term.coefficient < 1) || (!moves && is_fold(term.slot) == folds_))
        return false;
      place = term.slot;
      (moves ? axis.axis.outputs : axis.axis.taps) = extent(term.slot);
      (moves ? axis.axis.step : axis.axis.tap_step) = term.coefficient;
    }
    axes_.push_back(axis);
    windowed_.resize(x_.coordinates.size());
    windowed_[c] = true;
    return true;
  }

  /// True if no index on an axis is used elsewhere in x.
  [[nodiscard]] bool indices_are_distinct() const {
    for (const Axis& axis : axes_) {
      for (const int slot : {axis.output, axis.tap}) {
        int uses = 0;
        for (std::size_t c = 0; c < x_.coordinates.size(); ++c)
          uses += slot != kNone && mentions(c, slot) ? 1 : 0;
        if (uses > 1) return false;
      }
    }
    return true;
  }

  const CompiledPrimitive& primitive_;
  const CompiledAccess& x_;
  const CompiledAccess& other_;
  bool folds_ = false;
  std::vector<Axis> axes_;
  std::vector<bool> windowed_;  // by coordinate
};

/// Σ index · stride for all values of some indices, the first outermost.
template <class StrideOf>
std::vector<std::int64_t> places(const Candidate& dot, const std::vector<int>& slots, StrideOf stride_of) {
  std::vector<std::int64_t> out = {0};
  for (const int slot : slots) {
    std::vector<std::int64_t> next;
    next.reserve(out.size() * static_cast<std::size_t>(dot.extent(slot)));
    for (const std::int64_t base : out) {
      for (std::int64_t i = 0; i < dot.extent(slot); ++i) next.push_back(base + i * stride_of(slot));
    }
    out = std::move(next);
  }
  return out;
}

std::int64_t combinations(const Candidate& dot, const std::vector<int>& slots) {
  std::int64_t count = 1;
  for (const int slot : slots) count *= dot.extent(slot);
  return count;
}

/// The loop nest of the indices that number products: images and groups. Those that move the other side come
/// first (outermost), so that its packed form serves all that follow.
LoopNest batch_of(const Candidate& dot, std::vector<int> slots) {
  std::stable_partition(slots.begin(), slots.end(), [&](int slot) { return dot.other_stride(slot) != 0; });
  LoopNest nest;
  nest.strides.resize(3);
  for (const int slot : slots) {
    nest.extents.push_back(dot.extent(slot));
    nest.strides[0].push_back(dot.x_stride(slot));
    nest.strides[1].push_back(dot.other_stride(slot));
    nest.strides[2].push_back(dot.out_stride(slot));
  }
  nest.collapse();
  return nest;
}

bool fits(const kernels::cpu::WindowGrid& grid, std::int64_t images) {
  return grid.planes() < kMostNumbers && grid.plane_stride() < kMostNumbers &&
         grid.size(grid.planes()) * images < kMostNumbers;
}

std::vector<kernels::cpu::WindowProductForm::Term> terms_of(const Candidate& dot,
                                                            const std::vector<int>& planes) {
  std::vector<kernels::cpu::WindowProductForm::Term> terms = {{}};
  for (const int slot : dot.indices(true)) {
    const bool is_plane = std::find(planes.begin(), planes.end(), slot) != planes.end();
    const bool is_row_tap = slot == dot.rows().tap;
    std::vector<kernels::cpu::WindowProductForm::Term> next;
    for (const auto& outer : terms) {
      for (std::int64_t i = 0; i < dot.extent(slot); ++i) {
        auto term = outer;
        term.weight += i * dot.other_stride(slot);
        if (is_plane) {
          term.plane = term.plane * dot.extent(slot) + i;
        } else {
          (is_row_tap ? term.row_tap : term.column_tap) = i;
        }
        next.push_back(term);
      }
    }
    terms = std::move(next);
  }
  return terms;
}

float fill_of(const CompiledAccess& access) { return access.fill.real; }

std::optional<WindowProducts> product_of(ValueIndex value, const CompiledPrimitive& primitive,
                                         std::size_t windowed) {
  Candidate dot(primitive, windowed);
  if (!dot.find_axes(false)) return std::nullopt;
  std::vector<int> rows, batch, planes;
  for (const int slot : dot.indices(false)) {
    if (dot.on_axis(slot)) {
      if (dot.other_stride(slot) != 0) return std::nullopt;
    } else {
      (dot.in_x(slot) ? batch : rows).push_back(slot);
    }
  }
  for (const int slot : dot.indices(true)) {
    if (!dot.on_axis(slot)) planes.push_back(slot);
  }
  if (primitive.fold_count > kMostTerms || combinations(dot, rows) * primitive.fold_count > kMostNumbers)
    return std::nullopt;
  kernels::cpu::WindowProductForm form;
  form.rows = dot.rows().axis;
  form.columns = dot.columns().axis;
  form.planes = places(dot, planes, [&](int slot) { return dot.x_stride(slot); });
  form.fill = fill_of(dot.x());
  if (!fits(kernels::cpu::WindowGrid(form.rows, form.columns, form.planes, 0), 1)) return std::nullopt;
  form.terms = terms_of(dot, planes);
  form.weight_rows = places(dot, rows, [&](int slot) { return dot.other_stride(slot); });
  form.out_rows = places(dot, rows, [&](int slot) { return dot.out_stride(slot); });
  form.out_row = dot.out_stride(dot.rows().output);
  form.out_column = dot.out_stride(dot.columns().output);
  if (form.columns.outputs == 1) form.out_column = 1;
  return WindowProducts{value,
                        dot.x().value,
                        dot.other().value,
                        dot.x_base(),
                        dot.other().offset,
                        batch_of(dot, batch),
                        kernels::cpu::WindowProduct(std::move(form))};
}

std::optional<WindowGradients> gradient_of(ValueIndex value, const CompiledPrimitive& primitive,
                                           std::size_t windowed) {
  Candidate dot(primitive, windowed);
  if (!dot.find_axes(true)) return std::nullopt;
  std::vector<int> planes, columns, batch, images;
  for (const int slot : dot.indices(false)) {
    const bool in_other = dot.other_stride(slot) != 0;
    if (dot.on_axis(slot)) {
      if (in_other) return std::nullopt;
    } else {
      (dot.in_x(slot) ? (in_other ? batch : planes) : columns).push_back(slot);
    }
  }
  for (const int slot : dot.indices(true)) {
    if (!dot.on_axis(slot)) {
      images.push_back(slot);
    } else if (slot != dot.rows().output && slot != dot.columns().output) {
      return std::nullopt;
    }
  }
  // Images must be the outer part of the fold, and the other side's columns lie at one stride.
  for (const int slot : {dot.rows().output, dot.columns().output}) {
    if (slot != kNone && !images.empty() && slot < images.back()) return std::nullopt;
  }
  LoopNest column{{}, {{}, {}}};
  for (const int slot : columns) {
    column.extents.push_back(dot.extent(slot));
    column.strides[0].push_back(dot.other_stride(slot));
    column.strides[1].push_back(dot.out_stride(slot));
  }
  column.collapse();
  if (column.extents.size() != 1) return std::nullopt;
  kernels::cpu::WindowGradientForm form;
  form.rows = dot.rows().axis;
  form.columns = dot.columns().axis;
  form.planes = places(dot, planes, [&](int slot) { return dot.x_stride(slot); });
  form.fill = fill_of(dot.x());
  if (combinations(dot, images) > kMostTerms || primitive.count > kMostNumbers) return std::nullopt;
  form.images = places(dot, images, [&](int slot) { return dot.x_stride(slot); });
  form.other_images = places(dot, images, [&](int slot) { return dot.other_stride(slot); });
  form.other_row = dot.rows().output == kNone ? 0 : dot.other_stride(dot.rows().output);
  form.other_column = dot.columns().output == kNone ? 0 : dot.other_stride(dot.columns().output);
  form.count = column.extents[0];
  form.other_step = column.strides[0][0];
  form.out_step = column.strides[1][0];
  form.out_planes = places(dot, planes, [&](int slot) { return dot.out_stride(slot); });
  form.out_row_tap = dot.out_stride(dot.rows().tap);
  form.out_column_tap = dot.out_stride(dot.columns().tap);
  kernels::cpu::WindowGradient gradient(std::move(form));
  if (!fits(gradient.grid(), gradient.slots())) return std::nullopt;
  return WindowGradients{value,
                         dot.x().value,
                         dot.other().value,
                         dot.x_base(),
                         dot.other().offset,
                         batch_of(dot, batch),
                         std::move(gradient)};
}

/// True if the product is the better of two readings of a dot: it has channels last; or else it has the
/// smaller column stride, whose windows move along memory; or else it has more window positions.
bool is_better(const kernels::cpu::WindowProduct& product, const kernels::cpu::WindowGradient& gradient) {
  const bool product_channels = product.channels_last() != nullptr;
  if (product_channels != (gradient.channels_last() != nullptr)) return product_channels;
  const auto& a = product.form();
  const auto& b = gradient.form();
  if (a.columns.stride != b.columns.stride) return a.columns.stride < b.columns.stride;
  return a.rows.outputs * a.columns.outputs >= b.rows.outputs * b.columns.outputs;
}

bool may_have_windows(const CompiledPrimitive& primitive) {
  return primitive.kind == Kind::kDot && primitive.accesses.size() == 2 && primitive.count != 0 &&
         primitive.fold_count != 0;
}

}  // namespace

std::optional<CpuOperation> recognise_windows(ValueIndex value, const CompiledPrimitive& primitive) {
  if (!may_have_windows(primitive)) return std::nullopt;
  for (const std::size_t windowed : {std::size_t{0}, std::size_t{1}}) {
    auto product = product_of(value, primitive, windowed);
    auto gradient = gradient_of(value, primitive, windowed);
    if (product && gradient) {
      if (is_better(product->product, gradient->gradient)) return product;
      return gradient;
    }
    if (product) return product;
    if (gradient) return gradient;
  }
  return std::nullopt;
}

/// Floats of scratch that a thread may have for a window gradient that is resumed: 1 GiB.
constexpr std::int64_t kMostResumed = std::int64_t{1} << 28;

std::optional<WindowGradients> recognise_window_gradients(ValueIndex value,
                                                          const CompiledPrimitive& primitive) {
  if (!may_have_windows(primitive)) return std::nullopt;
  for (const std::size_t windowed : {std::size_t{0}, std::size_t{1}}) {
    auto gradient = gradient_of(value, primitive, windowed);
    if (!gradient || gradient->gradient.outputs() == 1) continue;
    const std::int64_t planes = gradient->gradient.grid().planes();
    if (gradient->gradient.scratch_size(planes, kernels::cpu::kDotWords) <= kMostResumed) return gradient;
  }
  return std::nullopt;
}

std::int64_t WindowGradients::sets_of(int members) const {
  if (resumed) return kernels::cpu::kDotWords;
  const auto groups = groups_of(members);
  return groups ? 1 + *groups : kernels::cpu::WindowGradient::kPlainSets;
}

std::optional<std::int64_t> WindowGradients::groups_of(int members) const {
  const std::int64_t groups = gradient.groups();
  if (resumed || members == 1 || groups < members || batch.count() != 1) return std::nullopt;
  std::int64_t most = 0;
  std::int64_t most_terms = 0;
  for (std::int64_t m = 0; m < members; ++m) {
    const std::int64_t first = groups * m / members;
    const std::int64_t end = groups * (m + 1) / members;
    most = std::max(most, end - first);
    most_terms = std::max(most_terms, gradient.terms_of(first, end));
  }
  // Shares must be nearly equal, and memory for the groups' sums little.
  constexpr std::int64_t kMostGroups = 64;
  if (most_terms * members * 8 > gradient.terms_of(0, groups) * 9 || most > kMostGroups) return std::nullopt;
  return most;
}

}  // namespace dgx::exec
