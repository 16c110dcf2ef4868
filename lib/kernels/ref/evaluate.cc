#include "dgx/kernels/evaluate.h"

#include <fmt/format.h>

#include "numbers.h"

namespace dgx::kernels {
namespace {

// Local to this file, so that the instances of element.h's functions are too and get inlined: worth a third
// of the time of a sum.
struct LocalNumbers : PlainNumbers {};

/// Numbers (element.h) that count the operations that make them.
struct CountedNumbers : PlainNumbers {
  OperationCounts counts;

  Slot operation(const Operation& at, const std::array<Slot, 3>&, NumberType, Slot result) {
    ++counts.by_op[static_cast<std::size_t>(at.op)];
    return result;
  }
};

template <class E, class T, class Convert>
void fill_range(E& element, T* out, std::int64_t count, Convert convert) {
  for (std::int64_t i = 0; i < count; ++i, next_element(element)) out[i] = convert(evaluate(element));
}

/// Stores the elements from `begin` to `end` where they belong in `out`, which holds the whole value.
template <class E>
void store_range(E& element, std::uint8_t* out, std::int64_t begin, std::int64_t end) {
  seek_element(element, begin);
  switch (element.primitive.dtype) {
    case DType::kF32:
      fill_range(element, reinterpret_cast<float*>(out) + begin, end - begin,
                 [](Slot slot) { return canonical_nan(slot.real); });
      break;
    case DType::kI64:
      fill_range(element, reinterpret_cast<std::int64_t*>(out) + begin, end - begin,
                 [](Slot slot) { return slot.integer; });
      break;
    case DType::kU8:
      fill_range(element, out + begin, end - begin,
                 [](Slot slot) { return static_cast<std::uint8_t>(to_u8(slot.integer)); });
      break;
  }
}

Status check_type(const CompiledPrimitive& primitive, const Tensor& out) {
  if (out.dtype() == primitive.dtype) return {};
  return internal_error(
      fmt::format("a tensor of {} for a value of {}", name_of(out.dtype()), name_of(primitive.dtype)));
}

Status check_range(const CompiledPrimitive& primitive, std::span<const std::uint8_t> out, std::int64_t begin,
                   std::int64_t end) {
  if (out.size() != static_cast<std::size_t>(primitive.count) * size_of(primitive.dtype)) {
    return internal_error(
        fmt::format("{} bytes for {} elements of {}", out.size(), primitive.count, name_of(primitive.dtype)));
  }
  if (begin < 0 || end > primitive.count || begin > end) {
    return internal_error(fmt::format("no elements {} to {} in {}", begin, end, primitive.count));
  }
  return {};
}

template <class Source>
Number element_at(const CompiledPrimitive& primitive, Source& source, std::int64_t at) {
  assert(at >= 0 && at < primitive.count);
  Element<LocalNumbers, Source> element{primitive, source, {}};
  seek_element(element, at);
  return stored(primitive.dtype, evaluate(element));
}

}  // namespace

Number stored(DType dtype, Slot slot) {
  switch (dtype) {
    case DType::kF32: return Number::of(canonical_nan(slot.real));
    case DType::kI64: return Number::of(slot.integer);
    case DType::kU8: return Number::of(to_u8(slot.integer));
  }
  return {};
}

Result<TensorSource> TensorSource::bind(const CompiledPrimitive& primitive,
                                        const ByValue<TensorView>& values) {
  TensorSource source;
  for (const CompiledAccess& access : primitive.accesses) {
    if (!values.contains(access.value)) return malformed(fmt::format("value {} is missing", access.value));
    const TensorView& view = values[access.value];
    if (view.dtype != access.dtype || view.count() != access.count) {
      return malformed(fmt::format("value {} has {} elements of {}, not {} of {}", access.value, view.count(),
                                   name_of(view.dtype), access.count, name_of(access.dtype)));
    }
    source.bound_.push_back({access.dtype, view.bytes.data()});
  }
  return source;
}

Number evaluate_element(const CompiledPrimitive& primitive, ValueSource& source, std::int64_t element) {
  LookupSource lookup(primitive, source);
  return element_at(primitive, lookup, element);
}

Result<Number> evaluate_element(const CompiledPrimitive& primitive, const ByValue<TensorView>& values,
                                std::int64_t element) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  return element_at(primitive, source, element);
}

Status evaluate_all(const CompiledPrimitive& primitive, const ByValue<TensorView>& values,
                    std::span<std::uint8_t> out, std::int64_t begin, std::int64_t end) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  DGX_CHECK(check_range(primitive, out, begin, end));
  if (begin == end) return {};
  Element<LocalNumbers, const TensorSource> element{primitive, source, {}};
  store_range(element, out.data(), begin, end);
  return {};
}

Status evaluate_all(const CompiledPrimitive& primitive, const ByValue<TensorView>& values, Tensor& out,
                    std::int64_t begin, std::int64_t end) {
  DGX_CHECK(check_type(primitive, out));
  return evaluate_all(primitive, values, out.bytes(), begin, end);
}

Result<OperationCounts> evaluate_and_count(const CompiledPrimitive& primitive,
                                           const ByValue<TensorView>& values, Tensor& out) {
  DGX_CHECK(check_type(primitive, out));
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  DGX_CHECK(check_range(primitive, out.bytes(), 0, primitive.count));
  Element<CountedNumbers, const TensorSource> element{primitive, source, {}};
  if (primitive.count > 0) store_range(element, out.bytes().data(), 0, primitive.count);
  return element.numbers.counts;
}

}  // namespace dgx::kernels
