// Checks that every enumerated form of primitive, flattened to plain data (dgx/kernels/primitive_view.h) and
// moved, gives the bits of the compiled form: what a GPU evaluates is the definition.

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "dgx/kernels/element.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/plain_numbers.h"
#include "dgx/kernels/primitive_view.h"
#include "dgx/program/program.h"
#include "families.h"
#include "run.h"

namespace dgx::matrix {
namespace {

using kernels::BoundAccess;
using kernels::BoundSource;
using kernels::CompiledPrimitive;
using kernels::PlainNumbers;
using kernels::PrimitiveView;

constexpr std::uint64_t kSeed = 1;

/// A block at an address with only the alignment it requires.
class Moved {
 public:
  explicit Moved(const std::vector<std::uint8_t>& block) : words_(block.size() / 8 + 2) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(words_.data());
    at_ = bytes + (reinterpret_cast<std::uintptr_t>(bytes) % 16 == 0 ? 8 : 0);
    std::memcpy(at_, block.data(), block.size());
  }
  [[nodiscard]] const PrimitiveView& view() const { return kernels::view_of(at_); }

 private:
  std::vector<std::uint64_t> words_;
  std::uint8_t* at_ = nullptr;
};

template <std::size_t kLevels>
Tensor evaluate(const PrimitiveView& view, const std::vector<BoundAccess>& accesses, const Shape& shape) {
  Tensor out(view.dtype, shape);
  const BoundSource source(accesses.data());
  PlainNumbers numbers;
  kernels::ElementEvaluator<PrimitiveView, PlainNumbers, const BoundSource, kLevels> evaluator(view, source,
                                                                                               numbers);
  for (std::int64_t e = 0; e < view.count; ++e) {
    evaluator.seek(e);
    kernels::store_element(view.dtype, out.bytes().data(), e, evaluator.evaluate());
  }
  return out;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.bytes().size() == b.bytes().size() &&
         std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

/// Counts of the case's lines that are compared, and of those that differ.
struct Count {
  int lines = 0, wrong = 0;
};

Count compare(const Case& c) {
  Count count;
  const auto program = program_of(c, {false, true, false});
  const auto reference = reference_of(c, kSeed);
  if (!program.ok() || !reference.ok()) return {0, 1};
  const auto type_of = [&](kernels::ValueIndex v) -> std::optional<kernels::ValueType> {
    const Tensor& value = reference->values[static_cast<std::size_t>(v)];
    return kernels::ValueType{value.dtype(), value.shape()};
  };
  for (std::size_t v = reference->first_line; v < reference->values.size(); ++v) {
    const auto primitive = kernels::compile((*program)->values[v], type_of);
    if (!primitive.ok()) return {count.lines, count.wrong + 1};
    const Moved moved(kernels::flatten(*primitive));
    std::vector<BoundAccess> accesses;
    for (const auto& access : primitive->accesses) {
      accesses.push_back(
          {access.dtype, reference->values[static_cast<std::size_t>(access.value)].bytes().data()});
    }
    const Tensor& expected = reference->values[v];
    const bool is_short = primitive->fold_count <= kernels::kSumBlock;
    const bool good =
        equal(is_short ? evaluate<1>(moved.view(), accesses, expected.shape())
                       : evaluate<kernels::kMostSumLevels>(moved.view(), accesses, expected.shape()),
              expected);
    ++count.lines;
    if (!good) {
      ++count.wrong;
      fmt::print("WRONG {}: value {}\n", c.name, v);
    }
  }
  return count;
}

int run() {
  Count total;
  for (auto* family :
       {scalar_cases, access_cases, fold_cases, chain_cases, product_cases, window_cases, group_cases}) {
    for (const Case& c : family()) {
      const Count one = compare(c);
      total.lines += one.lines;
      total.wrong += one.wrong;
    }
  }
  fmt::print("{} lines, {} wrong\n", total.lines, total.wrong);
  return total.wrong == 0 && total.lines > 0 ? 0 : 1;
}

}  // namespace
}  // namespace dgx::matrix

int main() { return dgx::matrix::run(); }
