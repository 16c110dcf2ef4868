#include "leaves.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace dgx::program {

using kernels::Access;
using kernels::Operand;
using kernels::Primitive;
using kernels::ScalarOp;
using kernels::Step;

namespace {

constexpr std::int64_t kLeafBytes = 1024;
constexpr std::size_t kMaxChoices = 128;

/// Sets of leaves, one bit each: one set per way the selects may go. Only sets that no other contains are
/// kept.
using LeafSet = std::uint64_t;
using Choices = std::vector<LeafSet>;

void keep(Choices& choices, LeafSet set) {
  for (const LeafSet other : choices) {
    if ((set & ~other) == 0) return;
  }
  std::erase_if(choices, [&](LeafSet other) { return (other & ~set) == 0; });
  choices.push_back(set);
}

Choices merged_if_many(Choices choices) {
  if (choices.size() <= kMaxChoices) return choices;
  LeafSet all = 0;
  for (const LeafSet set : choices) all |= set;
  return {all};
}

Choices either(Choices a, const Choices& b) {
  for (const LeafSet set : b) keep(a, set);
  return merged_if_many(std::move(a));
}

Choices both(const Choices& a, const Choices& b) {
  Choices result;
  for (const LeafSet first : a) {
    for (const LeafSet second : b) keep(result, first | second);
  }
  return merged_if_many(std::move(result));
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

  [[nodiscard]] Choices term() const {
    if (primitive_.kind == kernels::Kind::kDot) return both({opened(0)}, {opened(1)});
    return both(result(primitive_.steps), primitive_.when.empty() ? Choices{0} : result(primitive_.when));
  }

 private:
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

  [[nodiscard]] Choices of_operand(const Operand& operand, const std::vector<Choices>& steps) const {
    if (operand.kind == Operand::Kind::kAccess) return {opened(static_cast<std::size_t>(operand.index))};
    if (operand.kind == Operand::Kind::kStep) return steps[static_cast<std::size_t>(operand.index)];
    return {0};
  }

  [[nodiscard]] Choices result(const std::vector<Step>& list) const {
    if (list.empty()) return primitive_.accesses.empty() ? Choices{0} : Choices{opened(0)};
    std::vector<Choices> steps;
    for (const Step& step : list) {
      Choices first = of_operand(step.operands[0], steps);
      if (step.op == ScalarOp::kSelect) {
        first = both(first, either(of_operand(step.operands[1], steps), of_operand(step.operands[2], steps)));
      } else {
        for (int n = 1; n < arity_of(step.op); ++n)
          first = both(first, of_operand(step.operands[static_cast<std::size_t>(n)], steps));
      }
      steps.push_back(std::move(first));
    }
    return steps.back();
  }

  const Primitive& primitive_;
  std::vector<std::size_t> leaf_;
};

}  // namespace

int leaf_count(const Primitive& primitive,
               const std::function<std::int64_t(kernels::ValueIndex)>& byte_size) {
  int most = 0;
  for (const LeafSet set : LeafCounter(primitive, byte_size).term())
    most = std::max(most, std::popcount(set));
  return most;
}

}  // namespace dgx::program
