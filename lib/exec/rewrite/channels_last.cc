#include "rewrite/channels_last.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "dgx/kernels/cpu/matmul.h"

namespace dgx::exec {

using kernels::Access;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::Step;
using kernels::Term;
using kernels::ValueIndex;

namespace {

constexpr std::size_t kRank = 4;
constexpr std::array<std::size_t, kRank> kOrder = {0, 2, 3, 1};

/// The permutation from [n, c, h, w] to [n, h, w, c], applied to `split`: a shape of the same elements in
/// which dimensions of `shape` may be cut into several. Element d is the old number of new dimension d.
/// Nullopt if a dimension of `split` spans two of `shape`.
std::optional<std::vector<std::size_t>> new_order(const Shape& split, const Shape& shape) {
  if (split == shape) return std::vector<std::size_t>(kOrder.begin(), kOrder.end());
  std::array<std::size_t, kRank + 1> begin{};  // extents of 1 may go with either neighbour
  std::size_t next = 0;
  for (std::size_t d = 0; d < kRank; ++d) {
    begin[d] = next;
    std::int64_t extent = 1;
    while (next < split.size() && extent < shape[d]) extent *= split[next++];
    if (extent != shape[d]) return std::nullopt;
  }
  begin[kRank] = split.size();
  std::vector<std::size_t> order;
  for (const std::size_t d : kOrder) {
    for (std::size_t n = begin[d]; n < begin[d + 1]; ++n) order.push_back(n);
  }
  return order;
}

template <class T>
std::vector<T> reordered(const std::vector<T>& old, const std::vector<std::size_t>& order) {
  std::vector<T> out;
  for (const std::size_t n : order) out.push_back(old[n]);
  return out;
}

/// True for a dot in which some coordinate adds an output index and a fold index, as a convolution's does.
bool reads_windows(const Primitive& primitive) {
  const auto is_window = [](const kernels::Coordinate& coordinate) {
    const auto has = [&](Term::Symbol symbol) {
      return std::any_of(coordinate.terms.begin(), coordinate.terms.end(),
                         [symbol](const Term& t) { return t.symbol == symbol; });
    };
    return has(Term::Symbol::kIndex) && has(Term::Symbol::kFold);
  };
  return primitive.kind == Kind::kDot &&
         std::any_of(primitive.accesses.begin(), primitive.accesses.end(), [&](const Access& access) {
           return std::any_of(access.coordinates.begin(), access.coordinates.end(), is_window);
         });
}

/// Chooses the values to move (`moved_`) when it is made; rewrite() then permutes what defines them and every
/// access to them. A value moves only if each access that views it in another shape can be permuted too.
class Rewriter {
 public:
  Rewriter(const program::Program& program, const std::vector<ValueIndex>& keep)
      : program_(program), moved_(program.values.size()) {
    find_shapes();
    for (const ValueIndex v : moved_.indices())
      moved_[v] = shapes_.contains(at(v).shape) && is_free_to_move(v);
    for (const ValueIndex v : keep) moved_[v] = false;
    for (const Primitive& value : program.values) {
      if (value.next) moved_[*value.next] = false;
      for (const Access& access : value.accesses) {
        const ValueIndex read = access.value;
        if (moved_[read] && access.view && !new_order(*access.view, at(read).shape)) moved_[read] = false;
      }
    }
  }

  [[nodiscard]] bool moves_something() const {
    return std::find(moved_.begin(), moved_.end(), true) != moved_.end();
  }

  [[nodiscard]] program::Program rewrite() const {
    program::Program out = program_;
    for (const ValueIndex v : moved_.indices()) {
      if (moved_[v]) move_value(out.values[v]);
      for (Access& access : out.values[v].accesses) move_access(access);
    }
    return out;
  }

 private:
  [[nodiscard]] const Primitive& at(ValueIndex v) const { return program_.values[v]; }

  /// True if the value may be images of more than one pixel, with channels that fill packed panels of 16.
  static bool is_image(const Primitive& value) {
    const Shape& s = value.shape;
    return value.kind != Kind::kInput && s.size() == kRank && s[1] % kernels::cpu::kPanelWidth == 0 &&
           s[2] * s[3] > 1;
  }

  /// Collects the shapes of images that convolutions read or make, and of maps that crop or pad these within
  /// the same batch, where a residual changes its size. Shapes that an input has too are left out: weights
  /// are such.
  void find_shapes() {
    const auto consider = [this](const Primitive& value) {
      if (is_image(value)) shapes_.insert(value.shape);
    };
    for (const Primitive& value : program_.values) {
      if (!reads_windows(value)) continue;
      consider(value);
      for (const Access& access : value.accesses) consider(at(access.value));
    }
    for (const Primitive& value : program_.values) {
      const bool follows =
          value.kind == Kind::kMap && is_image(value) &&
          std::any_of(value.accesses.begin(), value.accesses.end(), [&](const Access& access) {
            const Shape& read = at(access.value).shape;
            return !access.view && read.size() == kRank && read[0] == value.shape[0] &&
                   shapes_.contains(read);
          });
      if (follows) consider(value);
    }
    for (const Primitive& value : program_.values) {
      if (value.kind == Kind::kInput) shapes_.erase(value.shape);
    }
  }

  [[nodiscard]] bool is_free_to_move(ValueIndex v) const {
    return at(v).kind != Kind::kInput && new_order(at(v).iteration_shape(), at(v).shape).has_value();
  }

  /// Permutes what defines a value: its shape, its iteration, and the numbers of the indices that it names.
  static void move_value(Primitive& value) {
    const std::vector<std::size_t> order = *new_order(value.iteration_shape(), value.shape);
    std::vector<std::int32_t> place(order.size());
    for (std::size_t n = 0; n < order.size(); ++n) place[order[n]] = static_cast<std::int32_t>(n);
    const auto renumber = [&](std::vector<Step>& steps) {
      for (Step& step : steps) {
        for (Operand& operand : step.operands) {
          if (operand.kind == Operand::Kind::kIndex)
            operand.index = place[static_cast<std::size_t>(operand.index)];
        }
      }
    };
    renumber(value.steps);
    renumber(value.when);
    for (Access& access : value.accesses) {
      for (kernels::Coordinate& coordinate : access.coordinates) {
        for (Term& term : coordinate.terms) {
          if (term.symbol == Term::Symbol::kIndex) term.index = place[static_cast<std::size_t>(term.index)];
        }
      }
    }
    if (value.iteration) value.iteration = reordered(*value.iteration, order);
    value.shape = reordered(value.shape, {kOrder.begin(), kOrder.end()});
  }

  void move_access(Access& access) const {
    if (!moved_[access.value]) return;
    const Shape& read = at(access.value).shape;
    const std::vector<std::size_t> order = *new_order(access.view ? *access.view : read, read);
    access.coordinates = reordered(access.coordinates, order);
    if (access.view) access.view = reordered(*access.view, order);
  }

  const program::Program& program_;
  std::set<Shape> shapes_;
  kernels::ByValue<bool> moved_;
};

}  // namespace

std::shared_ptr<const program::Program> with_channels_last(std::shared_ptr<const program::Program> program,
                                                           const std::vector<ValueIndex>& keep) {
  const Rewriter rewriter(*program, keep);
  if (!rewriter.moves_something()) return program;
  return std::make_shared<const program::Program>(rewriter.rewrite());
}

}  // namespace dgx::exec
