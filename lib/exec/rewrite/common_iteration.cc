#include "rewrite/common_iteration.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "plan/linear.h"

namespace dgx::exec {

using kernels::Access;
using kernels::Coordinate;
using kernels::Kind;
using kernels::Operand;
using kernels::Primitive;
using kernels::Step;
using kernels::Term;

namespace {

/// An affine access: it reads element base + Σ strides[d] · index[d] of the flat value, over the dimensions
/// of the reader's iteration.
struct Walk {
  std::int64_t base = 0;
  std::vector<std::int64_t> strides;
};

/// The access as a walk; nullopt if it may fall outside, divides, or takes an index from a value.
std::optional<Walk> walk_of(const Access& access, const Primitive& reader, const Shape& read) {
  if (access.fill) return std::nullopt;
  const auto weights = row_major_strides(access.view ? *access.view : read);
  Walk walk{0, std::vector<std::int64_t>(reader.iteration_shape().size())};
  for (std::size_t c = 0; c < weights.size(); ++c) {
    const Coordinate& coordinate = access.coordinates[c];
    if (coordinate.division != Coordinate::Division::kNone) return std::nullopt;
    walk.base += weights[c] * coordinate.constant;
    for (const Term& term : coordinate.terms) {
      if (term.symbol != Term::Symbol::kIndex) return std::nullopt;
      walk.strides[static_cast<std::size_t>(term.index)] += weights[c] * term.coefficient;
    }
  }
  return walk;
}

/// The row-major strides of all dimensions whose extent is not 1.
std::set<std::int64_t> places(const Shape& shape) {
  const auto strides = row_major_strides(shape);
  std::set<std::int64_t> out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) out.insert(strides[d]);
  }
  return out;
}

/// True if the shapes have the same count, and the dimensions of one are products of neighbouring dimensions
/// of the other.
bool is_split_of_other(const Shape& a, const Shape& b) {
  if (*element_count(a) != *element_count(b)) return false;
  const auto of_a = places(a);
  const auto of_b = places(b);
  return std::includes(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) ||
         std::includes(of_b.begin(), of_b.end(), of_a.begin(), of_a.end());
}

/// The offset of a walk over `shape` at row-major position `position`, without its base.
std::int64_t offset_at(std::int64_t position, const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = shape.size(); d-- > 0; position /= shape[d])
    offset += position % shape[d] * strides[d];
  return offset;
}

/// The strides over `to` of the walk that has `strides` over `from`; is_split_of_other() must hold for the
/// two shapes. Nullopt if the walk needs more than one stride along a dimension of `to`.
std::optional<std::vector<std::int64_t>> over(const Shape& to, const std::vector<std::int64_t>& strides,
                                              const Shape& from) {
  const auto of_to = row_major_strides(to);
  const auto of_from = row_major_strides(from);
  std::vector<std::int64_t> out;
  for (std::size_t d = 0; d < to.size(); ++d)
    out.push_back(to[d] == 1 ? 0 : offset_at(of_to[d], from, strides));
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && offset_at(of_from[d], to, out) != strides[d]) return std::nullopt;
  }
  return out;
}

/// True if the walk reads element n at position n.
bool is_in_order(const Walk& walk, const Shape& shape) {
  const auto in_order = row_major_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && walk.strides[d] != in_order[d]) return false;
  }
  return walk.base == 0;
}

bool names_index(const Primitive& line) {
  return std::any_of(line.steps.begin(), line.steps.end(), [](const Step& step) {
    return std::any_of(step.operands.begin(), step.operands.end(),
                       [](const Operand& o) { return o.kind == Operand::Kind::kIndex; });
  });
}

bool is_empty(const Shape& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

/// Rewrites maps in the order of the program, so that a chain of maps takes over one shape from map to map.
class Sharer {
 public:
  explicit Sharer(const program::Program& program) : program_(program) {}

  program::Program run() {
    for (Primitive& line : program_.values) {
      if (line.kind == Kind::kMap && !names_index(line) && !is_empty(line.shape)) adopt(line);
    }
    return std::move(program_);
  }

 private:
  [[nodiscard]] const Primitive& at(kernels::ValueIndex v) const { return program_.values[v]; }

  /// Gives the line the iteration shape of the first map that it reads element by element, if each of its
  /// accesses can be written as a walk over that shape.
  void adopt(Primitive& line) const {
    const Shape own = line.iteration_shape();
    std::vector<Walk> walks;
    for (const Access& access : line.accesses) {
      auto walk = walk_of(access, line, at(access.value).shape);
      if (!walk) return;
      walks.push_back(std::move(*walk));
    }
    for (std::size_t n = 0; n < walks.size(); ++n) {
      const Primitive& read = at(line.accesses[n].value);
      const Shape& its = read.iteration_shape();
      if (read.kind != Kind::kMap || own == its || !is_split_of_other(own, its) ||
          !is_in_order(walks[n], own))
        continue;
      if (auto changed = walking(line, walks, its)) {
        line = std::move(*changed);
        return;
      }
    }
  }

  /// The line with iteration shape `iteration`: each access becomes one coordinate of the flat value.
  std::optional<Primitive> walking(const Primitive& line, const std::vector<Walk>& walks,
                                   const Shape& iteration) const {
    Primitive changed = line;
    changed.iteration = iteration;
    for (std::size_t n = 0; n < walks.size(); ++n) {
      const auto strides = over(iteration, walks[n].strides, line.iteration_shape());
      if (!strides) return std::nullopt;
      Access& access = changed.accesses[n];
      Coordinate flat;
      flat.constant = walks[n].base;
      for (std::size_t d = 0; d < strides->size(); ++d) {
        if ((*strides)[d] != 0)
          flat.terms.push_back({Term::Symbol::kIndex, static_cast<std::int32_t>(d), (*strides)[d]});
      }
      access.view = Shape{*element_count(at(access.value).shape)};
      access.coordinates = {std::move(flat)};
    }
    return changed;
  }

  program::Program program_;
};

}  // namespace

std::shared_ptr<const program::Program> share_iterations(
    const std::shared_ptr<const program::Program>& program) {
  return std::make_shared<const program::Program>(Sharer(*program).run());
}

}  // namespace dgx::exec
