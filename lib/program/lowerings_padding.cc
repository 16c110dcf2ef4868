#include <algorithm>

#include "lowerings.h"
#include "pointwise.h"
#include "windows.h"

namespace dgx::program::lowerings {

using kernels::Coordinate;

namespace {

/// What is added before and after a dimension.
struct Padding {
  std::int64_t before = 0, after = 0;
};

/// The option `name`, whose pairs are for the last dimension first.
std::vector<Padding> paddings_of(Call& call, std::string_view name, std::size_t rank) {
  const auto listed = call.integers(name);
  std::vector<Padding> result(rank);
  if (!call.require(listed.size() % 2 == 0 && listed.size() <= 2 * rank, "more padding than dimensions"))
    return result;
  for (std::size_t n = 0; 2 * n < listed.size(); ++n)
    result[rank - 1 - n] = {listed[2 * n], listed[2 * n + 1]};
  return result;
}

kernels::Literal literal_of(DType dtype, double number) {
  return dtype == DType::kF32 ? kernels::Literal(static_cast<float>(number))
                              : kernels::Literal(static_cast<std::int64_t>(number));
}

}  // namespace

/// A fill around the tensor; a negative padding takes away.
void constant_pad(Call& call) {
  const TensorForm input = call.tensor("self");
  const auto paddings = paddings_of(call, "pad", input.shape.size());
  const auto fill = literal_of(input.dtype, call.number("value", 0));
  if (!call.ok()) return;
  TensorForm whole = whole_form(call.builder(), call.provenance(), input);
  std::vector<Coordinate> at;
  Shape shape;
  bool adds = false;
  for (std::size_t n = 0; n < paddings.size(); ++n) {
    at.push_back(output_index(n, 1, -paddings[n].before));
    shape.push_back(input.shape[n] + paddings[n].before + paddings[n].after);
    adds = adds || paddings[n].before > 0 || paddings[n].after > 0;
  }
  if (adds) whole.fill = fill;
  call.give(remap(whole, shape, at));
}

}  // namespace dgx::program::lowerings
