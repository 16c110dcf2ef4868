#include "dgx/kernels/evaluate.h"
#include "numbers.h"

namespace dgx::kernels {
namespace {

using Visit = TracedNumbers::Visit;

template <class Source>
ElementTrace trace_with(const CompiledPrimitive& primitive, Source& source, std::int64_t element,
                        const Visit& visit) {
  assert(element >= 0 && element < primitive.count);
  Element<TracedNumbers, Source> traced{primitive, source, TracedNumbers(visit)};
  seek_element(traced, element);
  const OperandRecord result = evaluate(traced);
  return traced.numbers.finish(stored(primitive.dtype, slot_of(result.number)));
}

}  // namespace

std::string_view name_of(Place place) {
  constexpr std::array<std::string_view, 10> kNames = {"step",      "when",     "dot term",    "dot block",
                                                       "dot group", "sum lane", "sum combine", "max operand",
                                                       "max",       "argmax"};
  return kNames[static_cast<std::size_t>(place)];
}

ElementTrace trace_element(const CompiledPrimitive& primitive, ValueSource& source, std::int64_t element,
                           const Visit& visit) {
  LookupSource lookup(primitive, source);
  return trace_with(primitive, lookup, element, visit);
}

Result<ElementTrace> trace_element(const CompiledPrimitive& primitive, const ByValue<TensorView>& values,
                                   std::int64_t element, const Visit& visit) {
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  return trace_with(primitive, source, element, visit);
}

}  // namespace dgx::kernels
