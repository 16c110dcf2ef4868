#include <algorithm>
#include <numeric>
#include <tuple>

#include "cpu/strip_group.h"
#include "dgx/core/checked.h"
#include "dgx/core/range.h"
#include "dgx/kernels/arithmetic.h"

namespace dgx::exec {

using kernels::Coordinate;
using kernels::floor_div;
using Source = StripRegister::Source;

namespace {

constexpr std::int64_t kOutside = -1;

// Indices that are read from values may be any number: arithmetic wraps, as the definition says.
std::int64_t wrapping_fma(std::int64_t a, std::int64_t b, std::int64_t c) {
  return kernels::wrapping_add(kernels::wrapping_mul(a, b), c);
}

/// The offset that coordinate `at` (before its division) adds to the element's place, or kOutside.
std::int64_t place_of(const GuardedCoordinate& coordinate, std::int64_t at) {
  if (coordinate.divisor != 1) {
    const std::int64_t quotient = floor_div(at, coordinate.divisor);
    if (coordinate.division == Coordinate::Division::kExact && quotient * coordinate.divisor != at)
      return kOutside;
    at = quotient;
  }
  return at < 0 || at >= coordinate.size ? kOutside : at * coordinate.stride;
}

/// Keeps the i of `range` for which 0 ≤ first + i · step < size; step is not 0.
void clip(Range& range, std::int64_t first, std::int64_t step, std::int64_t size) {
  // The least i for which first + i · by ≥ bound; by > 0.
  const auto at_least = [&](std::int64_t bound, std::int64_t by) { return -floor_div(first - bound, by); };
  if (step > 0) {
    range.begin = std::max(range.begin, at_least(0, step));
    range.end = std::min(range.end, at_least(size, step));
  } else {
    range.begin = std::max(range.begin, floor_div(first - size, -step) + 1);
    range.end = std::min(range.end, floor_div(first, -step) + 1);
  }
  range.end = std::max(range.begin, range.end);
}

template <class To, class From>
void copy_run(void* out, const void* from, std::int64_t base, std::int64_t step, Range inside,
              std::int64_t count, To fill) {
  auto* to = static_cast<To*>(out);
  std::fill(to, to + inside.begin, fill);
  const From* x =
      static_cast<const From*>(from) + (inside.begin < inside.end ? base + inside.begin * step : 0);
  if (step == 1) {
    std::copy(x, x + inside.size(), to + inside.begin);
  } else {
    for (std::int64_t i = inside.begin; i < inside.end; ++i) to[i] = x[(i - inside.begin) * step];
  }
  std::fill(to + inside.end, to + count, fill);
}

template <class To, class From>
void copy_places(void* out, const void* from, const std::int64_t* places, std::int64_t count, To fill) {
  auto* to = static_cast<To*>(out);
  const auto* x = static_cast<const From*>(from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = places[i] < 0 ? fill : x[places[i]];
}

/// The dividends of a divided coordinate along a run: first, first + step, ….
struct Dividend {
  const GuardedCoordinate* coordinate;
  std::int64_t first, step;
};

/// Division without remainder: the positions in `inside` that the divisor divides are evenly spaced, and so
/// are their quotients.
template <class To, class From>
void copy_exact(void* out, const void* from, std::int64_t base, std::int64_t step, Range inside,
                std::int64_t count, To fill, const Dividend& dividend) {
  auto* to = static_cast<To*>(out);
  std::fill(to, to + count, fill);
  const std::int64_t divisor = dividend.coordinate->divisor;
  const std::int64_t period = divisor / std::gcd(divisor, dividend.step);
  const auto at = [&](std::int64_t i) { return dividend.first + i * dividend.step; };
  std::int64_t begin = inside.begin;
  while (begin < inside.begin + period && at(begin) % divisor != 0) ++begin;
  if (begin >= std::min(inside.end, inside.begin + period)) return;
  const std::int64_t quotient = at(begin) / divisor;
  const std::int64_t quotient_step = dividend.step * period / divisor;
  Range all{0, ceil_div(inside.end - begin, period)};
  clip(all, quotient, quotient_step, dividend.coordinate->size);
  const std::int64_t stride = dividend.coordinate->stride;
  const auto* x = static_cast<const From*>(from);
  for (std::int64_t j = all.begin; j < all.end; ++j) {
    to[begin + j * period] = x[base + (begin + j * period) * step + (quotient + j * quotient_step) * stride];
  }
}

/// Division rounded down: quotient and remainder are carried along from element to element.
template <class To, class From>
void copy_floor(void* out, const void* from, std::int64_t base, std::int64_t step, Range inside,
                std::int64_t count, To fill, const Dividend& dividend) {
  auto* to = static_cast<To*>(out);
  const auto* x = static_cast<const From*>(from);
  const auto& [divisor, size, stride] =
      std::tuple{dividend.coordinate->divisor, dividend.coordinate->size, dividend.coordinate->stride};
  const std::int64_t whole = floor_div(dividend.step, divisor);
  const std::int64_t part = dividend.step - whole * divisor;
  std::int64_t quotient = floor_div(dividend.first, divisor);
  std::int64_t rest = dividend.first - quotient * divisor;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_inside = i >= inside.begin && i < inside.end && quotient >= 0 && quotient < size;
    to[i] = is_inside ? x[base + i * step + quotient * stride] : fill;
    rest += part;
    const bool carries = rest >= divisor;
    quotient += whole + (carries ? 1 : 0);
    rest -= carries ? divisor : 0;
  }
}

/// Calls `copy` with the types of register and memory, and the fill.
template <class Copy>
void with_types(const StripRegister& reg, Copy copy) {
  if (reg.dtype == DType::kF32) copy(float{}, float{}, std::get<float>(reg.literal));
  if (reg.dtype == DType::kI64) copy(std::int64_t{}, std::int64_t{}, std::get<std::int64_t>(reg.literal));
  if (reg.dtype == DType::kU8) copy(std::int64_t{}, std::uint8_t{}, std::get<std::int64_t>(reg.literal));
}

}  // namespace

/// Element `at` of the strip in a register of integers.
std::int64_t StripRunner::index_read(std::size_t r, std::int64_t at) const {
  const StripRegister& reg = program_.registers[r];
  const bool bytes = reg.source == Source::kMemory && reg.dtype == DType::kU8;
  const void* from = scratch_.pointers_[r];
  return bytes ? static_cast<const std::uint8_t*>(from)[at] : static_cast<const std::int64_t*>(from)[at];
}

/// The part of the coordinate that is fixed along a run from element `start` of the row: the constant, the
/// outer indices' part, and that of the nest's indices, the innermost only if it `moves`.
std::int64_t StripRunner::fixed_part(const GuardedCoordinate& coordinate, std::int64_t start,
                                     bool moves) const {
  std::int64_t sum = coordinate.constant;
  for (const auto& term : coordinate.outer) sum += outer_index_[term.from] * term.coefficient;
  const std::size_t last = program_.nest.extents.size() - 1;
  const std::int64_t period = program_.period;
  for (const auto& term : coordinate.inner) {
    if (term.from < last) {
      sum += program_.nest.row_index(term.from, row_) * term.coefficient;
    } else if (period != 0 && term.from == last) {
      sum += start / period * term.coefficient;
    } else if (moves) {
      sum += (period == 0 ? start : start % period) * term.coefficient;
    }
  }
  return sum;
}

/// A run along the innermost dimension: elements [start, start + count) of the row, of which the first is
/// element `at` of the strip. Element i lies at base + i · step in memory, if it is `inside` and no
/// coordinate of `rest`, which moves it further, is outside.
struct StripRunner::GuardedRun {
  /// A coordinate that is computed element by element: first + i · step before its division, to which the
  /// numbers that it reads at each element are added, if they differ along the run.
  struct OneByOne {
    const GuardedCoordinate* coordinate;
    std::int64_t first, step;
    bool reads;
  };
  std::int64_t at = 0, start = 0, count = 0;
  std::int64_t base = 0, step = 0;
  Range inside;
  std::array<OneByOne, kMaxRank> rest;  // strip_accesses() allows no more
  std::size_t rests = 0;
};

/// Adds a coordinate. Most only limit the part of the run that is inside; those that divide, or read another
/// index at every element, are left to the rest.
void StripRunner::add_coordinate(GuardedRun& run, const GuardedCoordinate& coordinate) const {
  const std::size_t innermost = program_.nest.extents.size() - (program_.period == 0 ? 1 : 0);
  std::int64_t step = 0;
  for (const auto& term : coordinate.inner) step += term.from == innermost ? term.coefficient : 0;
  std::int64_t first = fixed_part(coordinate, run.start, true);
  const bool varies = std::any_of(coordinate.reads.begin(), coordinate.reads.end(), [&](const auto& term) {
    const StripRegister& index = program_.registers[term.from];
    return run.count > 1 &&
           (index.source == Source::kGuarded || program_.nest.strides[index.map].back() != 0);
  });
  for (const auto& term : coordinate.reads) {
    if (!varies) first = wrapping_fma(term.coefficient, index_read(term.from, run.at), first);
  }
  if (varies || (step != 0 && (coordinate.divisor != 1 || !coordinate.reads.empty()))) {
    run.rest[run.rests++] = {&coordinate, first, step, varies};
  } else if (step == 0) {
    const std::int64_t place = place_of(coordinate, first);
    if (place == kOutside) run.inside = {0, 0};
    run.base += place;
  } else {
    clip(run.inside, first, step, coordinate.size);
    run.base += first * coordinate.stride;
    run.step += step * coordinate.stride;
  }
}

/// Computes every element's place in memory, or kOutside.
void StripRunner::find_places(const GuardedRun& run) const {
  std::int64_t* const places = scratch_.places_.data();
  for (std::int64_t i = 0; i < run.count; ++i)
    places[i] = i < run.inside.begin || i >= run.inside.end ? kOutside : run.base + i * run.step;
  for (std::size_t n = 0; n < run.rests; ++n) {
    const auto& [coordinate, first, step, reads] = run.rest[n];
    for (std::int64_t i = 0; i < run.count; ++i) {
      if (places[i] < 0) continue;
      std::int64_t value = wrapping_fma(step, i, first);
      if (reads) {
        for (const auto& term : coordinate->reads)
          value = wrapping_fma(term.coefficient, index_read(term.from, run.at + i), value);
      }
      const std::int64_t place = place_of(*coordinate, value);
      places[i] = place == kOutside ? kOutside : places[i] + place;
    }
  }
}

/// Reads a run in one copy, if nothing is left to the rest; else one by one, but for a lone division.
void StripRunner::guarded_run(std::size_t r, void* to, std::int64_t at, std::int64_t start,
                              std::int64_t count) {
  const StripRegister& reg = program_.registers[r];
  const auto& strides = program_.nest.strides[reg.map];
  const std::int64_t period = program_.period;
  GuardedRun run;
  run.at = at, run.start = start, run.count = count;
  run.step = strides.back();
  run.base = scratch_.row_base_[r];
  run.base += period == 0 ? start * run.step
                          : start / period * strides[strides.size() - 2] + start % period * run.step;
  run.inside = {0, count};
  for (const GuardedCoordinate& coordinate : reg.guarded) add_coordinate(run, coordinate);
  const std::int64_t base = run.base, step = run.step;
  const Range inside{std::min(run.inside.begin, count),
                     std::min(std::max(run.inside.begin, run.inside.end), count)};
  const void* from = values_[reg.value];
  if (run.rests == 0) {
    return with_types(reg, [&](auto wide, auto narrow, auto fill) {
      copy_run<decltype(wide), decltype(narrow)>(to, from, base, step, inside, count, fill);
    });
  }
  if (run.rests == 1 && run.rest[0].coordinate->reads.empty()) {
    const Dividend dividend{run.rest[0].coordinate, run.rest[0].first, run.rest[0].step};
    const bool exact = dividend.coordinate->division == Coordinate::Division::kExact;
    return with_types(reg, [&](auto wide, auto narrow, auto fill) {
      using To = decltype(wide);
      using From = decltype(narrow);
      if (exact) return copy_exact<To, From>(to, from, base, step, inside, count, fill, dividend);
      copy_floor<To, From>(to, from, base, step, inside, count, fill, dividend);
    });
  }
  run.inside = inside;
  find_places(run);
  with_types(reg, [&](auto wide, auto narrow, auto fill) {
    copy_places<decltype(wide), decltype(narrow)>(to, from, scratch_.places_.data(), count, fill);
  });
}

void StripRunner::read_guarded(std::size_t r, std::int64_t start, std::int64_t count) {
  const std::int64_t size = kernels::cpu::bytes_of(program_.registers[r].type);
  auto* to = static_cast<std::uint8_t*>(scratch_.pointers_[r]);
  if (program_.period == 0) return guarded_run(r, to, 0, start, count);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t run = std::min(count - done, program_.period - (start + done) % program_.period);
    guarded_run(r, to + done * size, done, start + done, run);
    done += run;
  }
}

}  // namespace dgx::exec
