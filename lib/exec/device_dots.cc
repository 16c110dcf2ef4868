#include "device_dots.h"

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

constexpr std::int64_t kMost = std::int64_t{1} << 30;
constexpr std::size_t kParts = 1 + cuda::kDotGuards;
constexpr auto kSlots = static_cast<std::size_t>(kernels::kIndexSlots);
constexpr auto kFoldSlot = static_cast<std::size_t>(kernels::kFirstFoldSlot);

/// A linear form of the indices: their coefficients, by slot, and its value where all of them are 0.
struct Part {
  std::array<std::int64_t, kSlots> coefficients{};
  std::int64_t base = 0;

  [[nodiscard]] bool moves(std::size_t slot) const { return coefficients[slot] != 0; }
};

/// An access taken apart. Part 0 is the element, from the coordinates that are always inside; the others are
/// coordinates that may not be.
struct Parts {
  std::array<Part, kParts> parts;
  std::vector<cuda::DotGuard> guards;
  bool fits = true;

  [[nodiscard]] bool is_guarded_by(std::size_t slot) const {
    return std::any_of(parts.begin() + 1, parts.end(), [slot](const Part& part) { return part.moves(slot); });
  }
};

class Recogniser {
 public:
  Recogniser(kernels::ValueIndex value, const CompiledPrimitive& primitive) : primitive_(primitive) {
    out_.out = value;
    extents_.fill(1);
    for (std::size_t d = 0; d < primitive.iteration.size(); ++d) extents_[d] = primitive.iteration[d];
    for (std::size_t d = 0; d < primitive.fold.size(); ++d) extents_[kFoldSlot + d] = primitive.fold[d];
  }

  std::optional<TiledDot> run() {
    if (primitive_.kind != Kind::kDot || primitive_.count == 0 || primitive_.count >= kMost ||
        primitive_.fold_count >= kMost)
      return {};
    sides_ = {parts_of(primitive_.accesses[0]), parts_of(primitive_.accesses[1])};
    values_ = {primitive_.accesses[0].value, primitive_.accesses[1].value};
    if (!sides_[0].guards.empty()) {  // fma(a, b, c) is fma(b, a, c)
      std::swap(sides_[0], sides_[1]);
      std::swap(values_[0], values_[1]);
    }
    if (!sides_[0].fits || !sides_[1].fits || !sides_[0].guards.empty() || !divide()) return {};
    if (!fill()) return {};
    out_.dot.form = cuda::choose_form(wanted_of(out_.dot));
    if (!is_worth_tiles()) return {};
    return out_;
  }

 private:
  [[nodiscard]] std::int64_t extent(std::size_t slot) const { return extents_[slot]; }

  /// The least and the greatest value of a part.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range(const Part& part) const {
    std::int64_t least = part.base, most = part.base;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const std::int64_t reach = part.coefficients[slot] * (extent(slot) - 1);
      (reach < 0 ? least : most) += reach;
    }
    return {least, most};
  }
  [[nodiscard]] bool is_small(const Part& part) const {
    if (std::abs(part.base) >= kMost) return false;
    std::int64_t reach = std::abs(part.base);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (std::abs(part.coefficients[slot]) >= kMost) return false;
      reach += std::abs(part.coefficients[slot]) * (extent(slot) - 1);
      if (reach >= kMost) return false;
    }
    return true;
  }

  void add_terms(Part& part, const std::vector<CompiledTerm>& terms, std::int64_t scale, bool& fits) const {
    for (const CompiledTerm& term : terms) {
      if (term.access >= 0 || std::abs(term.coefficient) >= kMost) {
        fits = false;
        return;
      }
      const auto slot = static_cast<std::size_t>(term.slot);
      if (extent(slot) > 1) part.coefficients[slot] += term.coefficient * scale;
    }
  }

  [[nodiscard]] Parts parts_of(const CompiledAccess& access) const {
    Parts out;
    if (access.count >= kMost || access.count == 0) out.fits = false;
    if (access.is_linear && out.fits) {
      out.parts[0].base = access.offset;
      add_terms(out.parts[0], access.linear, 1, out.fits);
    } else if (out.fits) {
      for (const CompiledCoordinate& coordinate : access.coordinates) add_coordinate(out, coordinate);
      if (!out.guards.empty() && access.fill.real != 0) out.fits = false;
    }
    for (const Part& part : out.parts) out.fits = out.fits && is_small(part);
    return out;
  }

  void add_coordinate(Parts& out, const CompiledCoordinate& coordinate) const {
    if (coordinate.size == 1 && coordinate.terms.empty() && coordinate.constant == 0 &&
        coordinate.divisor == 1)
      return;
    Part part;
    part.base = coordinate.constant;
    add_terms(part, coordinate.terms, 1, out.fits);
    out.fits = out.fits && is_small(part) && coordinate.divisor < kMost;
    if (!out.fits) return;
    const auto [least, most] = range(part);
    if (coordinate.division == kernels::Coordinate::Division::kNone && least >= 0 && most < coordinate.size) {
      out.parts[0].base += part.base * coordinate.stride;
      for (std::size_t slot = 0; slot < kSlots; ++slot)
        out.parts[0].coefficients[slot] += part.coefficients[slot] * coordinate.stride;
      return;
    }
    const bool is_exact = coordinate.division == kernels::Coordinate::Division::kExact;
    if (out.guards.size() == cuda::kDotGuards || (coordinate.divisor != 1 && !is_exact)) {
      out.fits = false;
      return;
    }
    cuda::DotGuard guard;
    guard.divisor = static_cast<std::int32_t>(coordinate.divisor);
    guard.size = static_cast<std::int32_t>(coordinate.size);
    guard.stride = static_cast<std::int32_t>(coordinate.stride);
    out.guards.push_back(guard);
    out.parts[out.guards.size()] = part;
  }

  [[nodiscard]] bool moves(const Parts& side, std::size_t slot) const {
    return std::any_of(side.parts.begin(), side.parts.end(),
                       [slot](const Part& part) { return part.moves(slot); });
  }

  /// Sorts the iteration indices by the sides that they move. False if one that moves both moves a guarded
  /// coordinate, or if a walk would have too many dimensions.
  bool divide() {
    for (std::size_t d = 0; d < primitive_.iteration.size(); ++d) {
      if (extent(d) == 1) continue;
      const bool a = moves(sides_[0], d), b = moves(sides_[1], d);
      if (a && b) {
        if (sides_[1].is_guarded_by(d)) return false;
        batch_.push_back(d);
      } else {
        (a ? rows_ : columns_).push_back(d);
      }
    }
    for (std::size_t d = 0; d < primitive_.fold.size(); ++d) {
      if (extent(kFoldSlot + d) > 1) positions_.push_back(kFoldSlot + d);
    }
    const std::size_t most = std::max({rows_.size(), columns_.size(), positions_.size()});
    return most <= cuda::kWalkDimensions && batch_.size() <= cuda::kBatchDimensions;
  }
  [[nodiscard]] std::int64_t lines(const std::vector<std::size_t>& slots) const {
    std::int64_t count = 1;
    for (const std::size_t slot : slots) count *= extent(slot);
    return count;
  }

  [[nodiscard]] cuda::Walk walk(const std::vector<std::size_t>& slots,
                                const std::array<Part, kParts>& parts) const {
    cuda::Walk out;
    out.dimensions = static_cast<std::int32_t>(slots.size());
    for (std::size_t d = 0; d < slots.size(); ++d) {
      out.extents[d] = static_cast<std::int32_t>(extent(slots[d]));
      for (std::size_t p = 0; p < kParts; ++p)
        out.coefficients[p][d] = static_cast<std::int32_t>(parts[p].coefficients[slots[d]]);
    }
    return out;
  }

  /// The elements between neighbours along the last of `slots`, where these are inside.
  [[nodiscard]] static std::int64_t pace(const Parts& side, const std::vector<std::size_t>& slots) {
    if (slots.empty()) return kMost;
    std::int64_t pace = side.parts[0].coefficients[slots.back()];
    for (std::size_t g = 0; g < side.guards.size(); ++g) {
      pace += side.parts[g + 1].coefficients[slots.back()] * side.guards[g].stride / side.guards[g].divisor;
    }
    return pace == 0 ? kMost : std::abs(pace);
  }

  /// The number of different values that some indices add to a part.
  [[nodiscard]] std::int64_t tap_count(const Part& part, const std::vector<std::size_t>& slots) const {
    std::int64_t count = 1;
    for (const std::size_t slot : slots) count *= part.moves(slot) ? extent(slot) : 1;
    return count;
  }
  [[nodiscard]] std::int64_t tap_count(const Parts& side, const std::vector<std::size_t>& slots) const {
    std::int64_t count = 0;
    for (std::size_t g = 0; g < side.guards.size(); ++g) count += tap_count(side.parts[g + 1], slots);
    return count;
  }

  /// Makes the walk over `slots` give guard g's tap, and fills in the taps from `first` on.
  void number_taps(const Part& part, std::size_t g, const std::vector<std::size_t>& slots, cuda::Walk& walk,
                   cuda::DotSide& out, std::int32_t first) const {
    cuda::DotGuard& guard = out.guards[g];
    guard.first_tap = first;
    guard.tap_count = static_cast<std::int32_t>(tap_count(part, slots));
    std::int32_t weight = 1;
    for (std::size_t d = slots.size(); d-- > 0;) {
      const std::int64_t moves = part.coefficients[slots[d]];
      walk.coefficients[g + 1][d] = moves == 0 ? 0 : weight;
      if (moves == 0) continue;
      for (std::int32_t tap = 0; tap < guard.tap_count; ++tap) {
        out.taps[static_cast<std::size_t>(first + tap)].coordinate +=
            static_cast<std::int32_t>(tap / weight % extent(slots[d]) * moves);
      }
      weight *= static_cast<std::int32_t>(extent(slots[d]));
    }
    for (std::int32_t tap = first; tap < first + guard.tap_count; ++tap) {
      cuda::DotTap& at = out.taps[static_cast<std::size_t>(tap)];
      // Rounded up: the other part of the coordinate is rounded down, and together they must leave no
      // remainder.
      std::int32_t quotient = at.coordinate / guard.divisor;
      if (quotient * guard.divisor < at.coordinate) ++quotient;
      at.moves = quotient * guard.stride;
    }
  }

  /// Describes one side. False if it has too many taps.
  bool describe(const Parts& from, const std::vector<std::size_t>& slots, cuda::DotSide& out) const {
    out.lines = walk(slots, from.parts);
    out.positions = walk(positions_, from.parts);
    out.along_depth = pace(from, positions_) < pace(from, slots);
    out.base[0] = static_cast<std::int32_t>(from.parts[0].base);
    out.guard_count = static_cast<std::int32_t>(from.guards.size());
    std::copy(from.guards.begin(), from.guards.end(), out.guards.begin());
    const std::int64_t of_lines = tap_count(from, slots), of_positions = tap_count(from, positions_);
    if (std::min(of_lines, of_positions) > static_cast<std::int64_t>(cuda::kDotTaps)) return false;
    out.lines_are_taps = of_lines < of_positions;
    std::int32_t first = 0;
    for (std::size_t g = 0; g < from.guards.size(); ++g) {
      out.base[g + 1] = static_cast<std::int32_t>(from.parts[g + 1].base);
      number_taps(from.parts[g + 1], g, out.lines_are_taps ? slots : positions_,
                  out.lines_are_taps ? out.lines : out.positions, out, first);
      first += out.guards[g].tap_count;
    }
    return true;
  }

  /// True if tiles are faster than one thread per output (device_source.h). The latter takes some 30
  /// instructions a position, and if outputs are few, the time that each waits for its next numbers.
  [[nodiscard]] bool is_worth_tiles() const {
    constexpr double kLanes = 132 * 128, kInstructions = 30, kWaits = 150;
    const double all = static_cast<double>(primitive_.count) * kInstructions / kLanes;
    return cuda::tile_cycles(wanted_of(out_.dot), out_.dot.form) <
           3000 + static_cast<double>(primitive_.fold_count) * std::max(all, kWaits);
  }

  bool fill() {
    std::array<Part, kParts> places;  // of the output
    std::int64_t stride = 1;
    for (std::size_t d = primitive_.iteration.size(); d-- > 0;) {
      places[0].coefficients[d] = stride;
      stride *= extent(d);
    }
    out_.a = values_[0];
    out_.b = values_[1];
    cuda::Dot& dot = out_.dot;
    if (!describe(sides_[0], rows_, dot.a) || !describe(sides_[1], columns_, dot.b)) return false;
    dot.out_rows = walk(rows_, places);
    dot.out_columns = walk(columns_, places);
    dot.rows = lines(rows_);
    dot.columns = lines(columns_);
    dot.depth = primitive_.fold_count;
    dot.batch.count = lines(batch_);
    dot.batch.dimensions = static_cast<std::int32_t>(batch_.size());
    for (std::size_t d = 0; d < batch_.size(); ++d) {
      dot.batch.extents[d] = extent(batch_[d]);
      dot.batch.strides[0][d] = sides_[0].parts[0].coefficients[batch_[d]];
      dot.batch.strides[1][d] = sides_[1].parts[0].coefficients[batch_[d]];
      dot.batch.strides[2][d] = places[0].coefficients[batch_[d]];
    }
    return true;
  }

  const CompiledPrimitive& primitive_;
  std::array<std::int64_t, kSlots> extents_{};
  std::array<Parts, 2> sides_;
  std::array<kernels::ValueIndex, 2> values_{};
  std::vector<std::size_t> rows_, columns_, batch_, positions_;  // index slots
  TiledDot out_;
};

}  // namespace

cuda::TileWanted wanted_of(const cuda::Dot& dot) {
  return {dot.rows, dot.columns, dot.depth, dot.batch.count, true};
}

cuda::TileWanted wanted_of(const Matmul& product) {
  cuda::TileWanted wanted{product.shape.rows, product.shape.columns, product.shape.depth};
  for (const std::int64_t extent : product.batch.extents) wanted.batch *= extent;
  return wanted;
}

TiledProduct in_tiles(const Matmul& product) { return {product, cuda::choose_form(wanted_of(product))}; }

std::optional<TiledDot> recognise_tiled_dot(kernels::ValueIndex value, const CompiledPrimitive& primitive) {
  return Recogniser(value, primitive).run();
}

}  // namespace dgx::exec
