#include "dgx/program/leaves.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "dgx/program/check.h"

namespace dgx::program {

using kernels::Access;
using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Step;

namespace {

constexpr std::int64_t kLeafBytes = 1024;
/// A set of leaves, one bit each: bit n is the leaf of access n. Ways holds one set per way that the selects
/// may go, none part of another.
using LeafSet = std::uint64_t;
using Ways = std::vector<LeafSet>;

/// Drops sets that are part of others. Larger sets are sorted first, so a set once kept stays.
Result<Ways> without_parts(std::vector<LeafSet> all) {
  std::sort(all.begin(), all.end(), [](LeafSet a, LeafSet b) {
    return std::pair(-std::popcount(a), a) < std::pair(-std::popcount(b), b);
  });
  if (const int most = std::popcount(all.front()); most > kMaxLeaves)
    return malformed(fmt::format("x: one element may open {} leaves, at most {} allowed", most, kMaxLeaves));
  Ways kept;
  for (const LeafSet set : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](LeafSet other) { return (set & ~other) == 0; })) continue;
    if (kept.size() == kMaxWays)
      return malformed(fmt::format("x: more than {} ways through the selects", kMaxWays));
    kept.push_back(set);
  }
  return kept;
}

Result<Ways> either(Ways a, const Ways& b) {
  a.insert(a.end(), b.begin(), b.end());
  return without_parts(std::move(a));
}

Result<Ways> together(const Ways& a, const Ways& b) {
  std::vector<LeafSet> all;
  for (const LeafSet first : a) {
    for (const LeafSet second : b) all.push_back(first | second);
  }
  return without_parts(std::move(all));
}

bool is_constant(const Access& access) {
  return std::all_of(access.coordinates.begin(), access.coordinates.end(),
                     [](const auto& c) { return c.terms.empty(); });
}

class LeafCounter {
 public:
  LeafCounter(const Primitive& primitive, const std::function<std::int64_t(kernels::ValueIndex)>& byte_size)
      : primitive_(primitive) {
    for (std::size_t n = 0; n < primitive.accesses.size(); ++n) leaf_.push_back(leaf_number(n, byte_size));
  }

  /// The ways of one term. For a chain these are the ways of its first position, which also reads `init`: an
  /// upper bound for the later positions, which do not.
  [[nodiscard]] Result<Ways> term() const {
    if (primitive_.kind == kernels::Kind::kDot) return together({opened(0)}, {opened(1)});
    DGX_TRY(Ways ways, result(primitive_.steps));
    if (!primitive_.when.empty()) {
      DGX_TRY(const Ways when, result(primitive_.when));
      DGX_TRY(ways, together(ways, when));
    }
    if (!primitive_.init) return ways;
    return together(ways, of_operand(*primitive_.init, {}));
  }

 private:
  /// The first access that certainly opens the same leaf as access n: an equal one, or for constant accesses
  /// to a value of a single leaf, any of these. Else n itself.
  [[nodiscard]] std::size_t leaf_number(
      std::size_t n, const std::function<std::int64_t(kernels::ValueIndex)>& byte_size) const {
    const Access& access = primitive_.accesses[n];
    const bool small = is_constant(access) && byte_size(access.value) <= kLeafBytes;
    for (std::size_t m = 0; m < n; ++m) {
      const Access& other = primitive_.accesses[m];
      if (other == access || (small && is_constant(other) && other.value == access.value)) return leaf_[m];
    }
    return n;
  }

  /// The leaf of access n, and those of the accesses that its coordinates read.
  [[nodiscard]] LeafSet opened(std::size_t n) const {
    LeafSet set = LeafSet{1} << leaf_[n];
    for (const auto& coordinate : primitive_.accesses[n].coordinates) {
      for (const auto& term : coordinate.terms) {
        if (term.symbol == kernels::Term::Symbol::kAccess)
          set |= LeafSet{1} << leaf_[static_cast<std::size_t>(term.index)];
      }
    }
    return set;
  }

  [[nodiscard]] Ways of_operand(const Operand& operand, const std::vector<Ways>& steps) const {
    if (operand.kind == Operand::Kind::kAccess) return {opened(static_cast<std::size_t>(operand.index))};
    if (operand.kind == Operand::Kind::kStep) return steps[static_cast<std::size_t>(operand.index)];
    return {0};
  }

  [[nodiscard]] Result<Ways> of_step(const Step& step, const std::vector<Ways>& steps) const {
    const auto operand = [&](int n) { return of_operand(step.operands[static_cast<std::size_t>(n)], steps); };
    if (step.op == ScalarOp::kSelect) {
      DGX_TRY(const Ways taken, either(operand(1), operand(2)));
      return together(operand(0), taken);
    }
    DGX_TRY(Ways ways, without_parts(operand(0)));  // an access may open too many by itself
    for (int n = 1; n < arity_of(step.op); ++n) {
      DGX_TRY(ways, together(ways, operand(n)));
    }
    return ways;
  }

  [[nodiscard]] Result<Ways> result(const std::vector<Step>& list) const {
    if (list.empty()) return without_parts({primitive_.accesses.empty() ? LeafSet{0} : opened(0)});
    std::vector<Ways> steps;
    for (const Step& step : list) {
      DGX_TRY(Ways ways, of_step(step, steps));
      steps.push_back(std::move(ways));
    }
    return std::move(steps.back());
  }

  const Primitive& primitive_;
  std::vector<std::size_t> leaf_;
};

}  // namespace

Status check_leaves(const Primitive& primitive,
                    const std::function<std::int64_t(kernels::ValueIndex)>& byte_size) {
  DGX_TRY([[maybe_unused]] const Ways ways, LeafCounter(primitive, byte_size).term());
  return {};
}

}  // namespace dgx::program
