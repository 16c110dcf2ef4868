#include "infinities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "line_writer.h"

namespace dgx::lowering {

bool has_infinity(const Tensor& tensor) {
  if (tensor.dtype() != DType::kF32) return false;
  const auto numbers = tensor.as<float>();
  return std::any_of(numbers.begin(), numbers.end(), [](float number) { return std::isinf(number); });
}

float stand_in_for_infinity(const Tensor& tensor) {
  std::set<float> magnitudes;
  for (const float number : tensor.as<float>()) magnitudes.insert(std::abs(number));
  float candidate = std::numeric_limits<float>::max();  // masks hold this too: torch.finfo().min
  while (magnitudes.contains(candidate)) candidate = std::nextafter(candidate, 0.0F);
  return candidate;
}

Tensor without_infinities(Tensor tensor) {
  if (!has_infinity(tensor)) return tensor;
  const float stand_in = stand_in_for_infinity(tensor);
  for (float& number : tensor.as<float>()) {
    if (std::isinf(number)) number = std::copysign(stand_in, number);
  }
  return tensor;
}

TensorForm with_infinities(Builder& builder, const std::string& provenance, const TensorForm& stored,
                           float stand_in) {
  LineWriter line(builder, provenance, stored.shape);
  const Expression number = line.read(stored);
  const Expression stands = compare(kernels::ScalarOp::kEq, abs(number), stand_in);
  return line.finish(DType::kF32, select(stands, number * std::numeric_limits<float>::infinity(), number));
}

}  // namespace dgx::lowering
