#include "device/device_dots.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

namespace dgx::exec {

using kernels::CompiledAccess;
using kernels::CompiledCoordinate;
using kernels::CompiledPrimitive;
using kernels::CompiledTerm;
using kernels::Kind;
namespace cuda = kernels::cuda;

namespace {

// A dot's numbers must be smaller than this, so that a device may add two of them in 32 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 30;
// Affine functions of an access: the element, and the coordinate of each guard.
constexpr std::size_t kParts = 1 + cuda::kDotGuards;
constexpr auto kSlots = static_cast<std::size_t>(kernels::kIndexSlots);
constexpr auto kFoldSlot = static_cast<std::size_t>(kernels::kFirstFoldSlot);

/// An affine function of the indices: base + Σ coefficients[slot] · index.
struct Part {
  std::array<std::int64_t, kSlots> coefficients{};
  std::int64_t base = 0;

  [[nodiscard]] bool moves(std::size_t slot) const { return coefficients[slot] != 0; }
};

/// An access split into affine parts. Part 0 is the element, from the coordinates that are always inside;
/// part g + 1 is the coordinate of guard g, which may be outside.
struct Parts {
  std::array<Part, kParts> parts;
  std::vector<cuda::DotGuard> guards;

  [[nodiscard]] bool moves(std::size_t slot) const {
    return std::any_of(parts.begin(), parts.end(), [slot](const Part& part) { return part.moves(slot); });
  }
  [[nodiscard]] bool is_guarded_by(std::size_t slot) const {
    return std::any_of(parts.begin() + 1, parts.end(), [slot](const Part& part) { return part.moves(slot); });
  }
};

/// The extent of each index, by slot; 1 where the primitive has no such index.
using Extents = std::array<std::int64_t, kSlots>;
using Slots = std::vector<std::size_t>;

Extents extents_of(const CompiledPrimitive& primitive) {
  Extents extents;
  extents.fill(1);
  for (std::size_t d = 0; d < primitive.iteration.size(); ++d) extents[d] = primitive.iteration[d];
  for (std::size_t d = 0; d < primitive.fold.size(); ++d) extents[kFoldSlot + d] = primitive.fold[d];
  return extents;
}

/// The least and the greatest value of a part.
std::pair<std::int64_t, std::int64_t> range(const Part& part, const Extents& extents) {
  std::int64_t least = part.base, most = part.base;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const std::int64_t reach = part.coefficients[slot] * (extents[slot] - 1);
    (reach < 0 ? least : most) += reach;
  }
  return {least, most};
}

/// True if the base, the coefficients and all values of the part are below 2^30 in magnitude.
bool is_small(const Part& part, const Extents& extents) {
  if (std::abs(part.base) >= kMost) return false;
  std::int64_t reach = std::abs(part.base);
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (std::abs(part.coefficients[slot]) >= kMost) return false;
    reach += std::abs(part.coefficients[slot]) * (extents[slot] - 1);
    if (reach >= kMost) return false;
  }
  return true;
}

/// Adds terms to a part. False if one takes an index from a value, or is too large.
bool add_terms(Part& part, const std::vector<CompiledTerm>& terms, const Extents& extents) {
  for (const CompiledTerm& term : terms) {
    if (term.access >= 0 || std::abs(term.coefficient) >= kMost) return false;
    const auto slot = static_cast<std::size_t>(term.slot);
    if (extents[slot] > 1) part.coefficients[slot] += term.coefficient;
  }
  return true;
}

/// Adds a coordinate: to the element if it is always inside, else as a guarded part of its own. False if it
/// rounds, or if there are too many guards or too large numbers.
bool add_coordinate(Parts& out, const CompiledCoordinate& coordinate, const Extents& extents) {
  if (coordinate.size == 1 && coordinate.terms.empty() && coordinate.constant == 0 && coordinate.divisor == 1)
    return true;
  Part part;
  part.base = coordinate.constant;
  if (!add_terms(part, coordinate.terms, extents) || !is_small(part, extents) || coordinate.divisor >= kMost)
    return false;
  const auto [least, most] = range(part, extents);
  if (coordinate.division == kernels::Coordinate::Division::kNone && least >= 0 && most < coordinate.size) {
    out.parts[0].base += part.base * coordinate.stride;
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      out.parts[0].coefficients[slot] += part.coefficients[slot] * coordinate.stride;
    return true;
  }
  const bool is_exact = coordinate.division == kernels::Coordinate::Division::kExact;
  if (out.guards.size() == cuda::kDotGuards || (coordinate.divisor != 1 && !is_exact)) return false;
  cuda::DotGuard guard;
  guard.divisor = static_cast<std::int32_t>(coordinate.divisor);
  guard.size = static_cast<std::int32_t>(coordinate.size);
  guard.stride = static_cast<std::int32_t>(coordinate.stride);
  out.guards.push_back(guard);
  out.parts[out.guards.size()] = part;
  return true;
}

/// The access in parts. Nullopt if it has another form, or numbers that are too large.
std::optional<Parts> parts_of(const CompiledAccess& access, const Extents& extents) {
  if (access.count >= kMost || access.count == 0) return {};
  Parts out;
  if (access.is_linear) {
    out.parts[0].base = access.offset;
    if (!add_terms(out.parts[0], access.linear, extents)) return {};
  } else {
    for (const CompiledCoordinate& coordinate : access.coordinates)
      if (!add_coordinate(out, coordinate, extents)) return {};
    if (!out.guards.empty() && access.fill.real != 0) return {};
  }
  const auto fits = [&](const Part& part) { return is_small(part, extents); };
  return std::all_of(out.parts.begin(), out.parts.end(), fits) ? std::optional(std::move(out)) : std::nullopt;
}

/// A dot's indices of extent above 1, by the sides that they move: only a, only b, both; and the fold's.
struct Division {
  Slots rows, columns, batch, positions;
};

/// Divides a dot's indices. Nullopt if one that moves both sides moves a guarded coordinate, or if a walk
/// would have too many dimensions.
std::optional<Division> divide(const CompiledPrimitive& primitive, const Extents& extents, const Parts& a,
                               const Parts& b) {
  Division out;
  for (std::size_t d = 0; d < primitive.iteration.size(); ++d) {
    if (extents[d] == 1) continue;
    if (a.moves(d) && b.moves(d)) {
      if (b.is_guarded_by(d)) return {};
      out.batch.push_back(d);
    } else {
      (a.moves(d) ? out.rows : out.columns).push_back(d);
    }
  }
  for (std::size_t d = 0; d < primitive.fold.size(); ++d) {
    if (extents[kFoldSlot + d] > 1) out.positions.push_back(kFoldSlot + d);
  }
  const std::size_t most = std::max({out.rows.size(), out.columns.size(), out.positions.size()});
  if (most > cuda::kWalkDimensions || out.batch.size() > cuda::kBatchDimensions) return {};
  return out;
}

/// Combinations of some indices: the product of their extents.
std::int64_t lines(const Slots& slots, const Extents& extents) {
  std::int64_t count = 1;
  for (const std::size_t slot : slots) count *= extents[slot];
  return count;
}

/// The walk over `slots`, outermost first: their extents, and their coefficients in each part.
cuda::Walk walk(const Slots& slots, const std::array<Part, kParts>& parts, const Extents& extents) {
  cuda::Walk out;
  out.dimensions = static_cast<std::int32_t>(slots.size());
  for (std::size_t d = 0; d < slots.size(); ++d) {
    out.extents[d] = static_cast<std::int32_t>(extents[slots[d]]);
    for (std::size_t p = 0; p < kParts; ++p)
      out.coefficients[p][d] = static_cast<std::int32_t>(parts[p].coefficients[slots[d]]);
  }
  return out;
}

/// Elements between neighbours along the innermost of `slots`, as if all were inside; kMost if there is no
/// such index, or if it moves nothing.
std::int64_t pace(const Parts& side, const Slots& slots) {
  if (slots.empty()) return kMost;
  std::int64_t pace = side.parts[0].coefficients[slots.back()];
  for (std::size_t g = 0; g < side.guards.size(); ++g) {
    pace += side.parts[g + 1].coefficients[slots.back()] * side.guards[g].stride / side.guards[g].divisor;
  }
  return pace == 0 ? kMost : std::abs(pace);
}

/// The number of taps: combinations of those of `slots` that move the part.
std::int64_t tap_count(const Part& part, const Slots& slots, const Extents& extents) {
  std::int64_t count = 1;
  for (const std::size_t slot : slots) count *= part.moves(slot) ? extents[slot] : 1;
  return count;
}
std::int64_t tap_count(const Parts& side, const Slots& slots, const Extents& extents) {
  std::int64_t count = 0;
  for (std::size_t g = 0; g < side.guards.size(); ++g) count += tap_count(side.parts[g + 1], slots, extents);
  return count;
}

/// Makes `walk` give the number of guard g's tap, in mixed radix over `slots`, instead of its coordinate, and
/// fills in the taps from `first` on: what each adds to the coordinate and to the element.
void number_taps(const Part& part, std::size_t g, const Slots& slots, const Extents& extents,
                 cuda::Walk& walk, cuda::DotSide& out, std::int32_t first) {
  cuda::DotGuard& guard = out.guards[g];
  guard.first_tap = first;
  guard.tap_count = static_cast<std::int32_t>(tap_count(part, slots, extents));
  std::int32_t weight = 1;
  for (std::size_t d = slots.size(); d-- > 0;) {
    const std::int64_t moves = part.coefficients[slots[d]];
    walk.coefficients[g + 1][d] = moves == 0 ? 0 : weight;
    if (moves == 0) continue;
    for (std::int32_t tap = 0; tap < guard.tap_count; ++tap) {
      out.taps[static_cast<std::size_t>(first + tap)].coordinate +=
          static_cast<std::int32_t>(tap / weight % extents[slots[d]] * moves);
    }
    weight *= static_cast<std::int32_t>(extents[slots[d]]);
  }
  for (std::int32_t tap = first; tap < first + guard.tap_count; ++tap) {
    cuda::DotTap& at = out.taps[static_cast<std::size_t>(tap)];
    // Rounded up: the other part of the coordinate is rounded down, and the two leave no remainder together.
    std::int32_t quotient = at.coordinate / guard.divisor;
    if (quotient * guard.divisor < at.coordinate) ++quotient;
    at.moves = quotient * guard.stride;
  }
}

/// Describes one side, whose rows or columns are along `slots`. False if it has too many taps.
bool describe(const Parts& from, const Slots& slots, const Slots& positions, const Extents& extents,
              cuda::DotSide& out) {
  out.lines = walk(slots, from.parts, extents);
  out.positions = walk(positions, from.parts, extents);
  out.along_depth = pace(from, positions) < pace(from, slots);
  out.base[0] = static_cast<std::int32_t>(from.parts[0].base);
  out.guard_count = static_cast<std::int32_t>(from.guards.size());
  std::copy(from.guards.begin(), from.guards.end(), out.guards.begin());
  const std::int64_t of_lines = tap_count(from, slots, extents),
                     of_positions = tap_count(from, positions, extents);
  if (std::min(of_lines, of_positions) > static_cast<std::int64_t>(cuda::kDotTaps)) return false;
  out.lines_are_taps = of_lines < of_positions;
  std::int32_t first = 0;
  for (std::size_t g = 0; g < from.guards.size(); ++g) {
    out.base[g + 1] = static_cast<std::int32_t>(from.parts[g + 1].base);
    number_taps(from.parts[g + 1], g, out.lines_are_taps ? slots : positions, extents,
                out.lines_are_taps ? out.lines : out.positions, out, first);
    first += out.guards[g].tap_count;
  }
  return true;
}

/// The dot, still without addresses and tile form. Nullopt if a side has too many taps.
std::optional<cuda::Dot> dot_of(const CompiledPrimitive& primitive, const Division& slots, const Parts& a,
                                const Parts& b, const Extents& extents) {
  std::array<Part, kParts> places;  // part 0: the output's strides
  std::int64_t stride = 1;
  for (std::size_t d = primitive.iteration.size(); d-- > 0;) {
    places[0].coefficients[d] = stride;
    stride *= extents[d];
  }
  cuda::Dot dot;
  if (!describe(a, slots.rows, slots.positions, extents, dot.a) ||
      !describe(b, slots.columns, slots.positions, extents, dot.b))
    return {};
  dot.out_rows = walk(slots.rows, places, extents);
  dot.out_columns = walk(slots.columns, places, extents);
  dot.rows = lines(slots.rows, extents);
  dot.columns = lines(slots.columns, extents);
  dot.depth = primitive.fold_count;
  dot.batch.count = lines(slots.batch, extents);
  dot.batch.dimensions = static_cast<std::int32_t>(slots.batch.size());
  for (std::size_t d = 0; d < slots.batch.size(); ++d) {
    const std::size_t slot = slots.batch[d];
    dot.batch.extents[d] = extents[slot];
    dot.batch.strides[0][d] = a.parts[0].coefficients[slot];
    dot.batch.strides[1][d] = b.parts[0].coefficients[slot];
    dot.batch.strides[2][d] = places[0].coefficients[slot];
  }
  return dot;
}

/// True if tiles are faster than one thread per output (device_source.h), in estimated cycles of a device
/// with 132 multiprocessors of 128 lanes. Such a thread takes about 30 instructions a position; if outputs
/// are too few to keep all lanes busy, each position costs it the wait for the next numbers. The kernel's
/// beginning and end cost about as much as those of tiles (tile_cycles()).
bool is_worth_tiles(const CompiledPrimitive& primitive, const cuda::Dot& dot) {
  constexpr double kLanes = 132 * 128, kInstructions = 30, kWaits = 150, kAround = 9000;
  const double all = static_cast<double>(primitive.count) * kInstructions / kLanes;
  return cuda::tile_cycles(wanted_of(dot), dot.form) <
         kAround + static_cast<double>(primitive.fold_count) * std::max(all, kWaits);
}

}  // namespace

cuda::TileWanted wanted_of(const cuda::Dot& dot) {
  return {dot.rows, dot.columns, dot.depth, dot.batch.count, true};
}

cuda::TileWanted wanted_of(const Matmul& product) {
  cuda::TileWanted wanted{product.shape.rows, product.shape.columns, product.shape.depth};
  wanted.batch = product.batch.count();
  return wanted;
}

TiledProduct in_tiles(const Matmul& product) { return {product, cuda::choose_form(wanted_of(product))}; }

std::optional<TiledDot> recognise_tiled_dot(kernels::ValueIndex value, const CompiledPrimitive& primitive) {
  if (primitive.kind != Kind::kDot || primitive.count == 0 || primitive.count >= kMost ||
      primitive.fold_count >= kMost)
    return {};
  const Extents extents = extents_of(primitive);
  auto a = parts_of(primitive.accesses[0], extents), b = parts_of(primitive.accesses[1], extents);
  if (!a || !b) return {};
  const bool swap = !a->guards.empty();  // fma(a, b, c) is fma(b, a, c): the guarded side is always b
  if (swap) std::swap(a, b);
  const auto slots = a->guards.empty() ? divide(primitive, extents, *a, *b) : std::nullopt;
  auto dot = slots ? dot_of(primitive, *slots, *a, *b, extents) : std::nullopt;
  if (!dot) return {};
  dot->form = cuda::choose_form(wanted_of(*dot));
  if (!is_worth_tiles(primitive, *dot)) return {};
  return TiledDot{value, primitive.accesses[swap ? 1 : 0].value, primitive.accesses[swap ? 0 : 1].value,
                  *dot};
}

}  // namespace dgx::exec
