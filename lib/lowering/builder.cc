#include "builder.h"

#include <algorithm>

#include "dgx/program/line.h"
#include "dgx/program/number_text.h"

namespace dgx::lowering {

using kernels::Access;
using kernels::Kind;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;

namespace {

Primitive input(Source source, DType dtype, Shape shape) {
  Primitive primitive;
  primitive.kind = Kind::kInput;
  primitive.dtype = dtype;
  primitive.shape = std::move(shape);
  primitive.source = std::move(source);
  return primitive;
}

/// The sort key by which finish() places a value: state entries by name, then batch, schedule, constants,
/// random inputs, then all others.
std::pair<int, std::string> place_of(const Primitive& primitive) {
  if (primitive.kind != Kind::kInput) return {5, ""};
  switch (primitive.source.kind) {
    case Source::Kind::kState: return {0, primitive.source.name};
    case Source::Kind::kBatch: return {1, primitive.source.name};
    case Source::Kind::kSchedule: return {2, ""};
    case Source::Kind::kConstant: return {3, program::print_line(primitive, {})};
    case Source::Kind::kUniform: return {4, ""};
  }
  return {5, ""};
}

}  // namespace

ValueIndex Builder::append(Primitive primitive) {
  std::string provenance = std::exchange(primitive.provenance, {});
  const auto [known, is_new] = by_text_.try_emplace(program::print_line(primitive, {}), values().next());
  if (!is_new) return known->second;
  primitive.provenance = std::move(provenance);
  program_.values.push_back(std::move(primitive));
  return values().last();
}

ValueIndex Builder::state(std::string name, DType dtype, Shape shape) {
  return append(input({Source::Kind::kState, std::move(name), {}}, dtype, std::move(shape)));
}

ValueIndex Builder::batch(std::string field, DType dtype, Shape shape) {
  return append(input({Source::Kind::kBatch, std::move(field), {}}, dtype, std::move(shape)));
}

ValueIndex Builder::schedule(std::vector<std::string> names) {
  const auto count = static_cast<std::int64_t>(names.size());
  return append(input({Source::Kind::kSchedule, "", std::move(names)}, DType::kF32, {count}));
}

ValueIndex Builder::constant(float value) { return constant(DType::kF32, {1}, {program::hex_float(value)}); }

ValueIndex Builder::constant(DType dtype, Shape shape, std::vector<std::string> numbers) {
  return append(input({Source::Kind::kConstant, "", std::move(numbers)}, dtype, std::move(shape)));
}

ValueIndex Builder::uniform(Shape shape) {
  return append(
      input({Source::Kind::kUniform, std::to_string(random_inputs_++), {}}, DType::kF32, std::move(shape)));
}

void Builder::set_next(ValueIndex state, ValueIndex next) { program_.values[state].next = next; }

program::Program Builder::finish(const std::vector<ValueIndex>& outputs) const {
  kernels::ByValue<bool> needed(values().size(), false);
  std::vector<ValueIndex> open = outputs;
  for (const ValueIndex value : values().indices()) {
    if (const auto next = values()[value].next) open.insert(open.end(), {value, *next});
  }
  while (!open.empty()) {
    const ValueIndex value = open.back();
    open.pop_back();
    if (needed[value]) continue;
    needed[value] = true;
    for (const Access& access : values()[value].accesses) open.push_back(access.value);
  }

  std::vector<ValueIndex> order;
  for (const ValueIndex value : values().indices()) {
    const bool is_output = std::find(outputs.begin(), outputs.end(), value) != outputs.end();
    if (needed[value] && !is_output) order.push_back(value);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](ValueIndex a, ValueIndex b) { return place_of(values()[a]) < place_of(values()[b]); });
  order.insert(order.end(), outputs.begin(), outputs.end());

  kernels::ByValue<ValueIndex> number(values().size(), kernels::kNoValue);
  for (std::size_t n = 0; n < order.size(); ++n) number[order[n]] = ValueIndex(n);
  program::Program result;
  for (const ValueIndex value : order) {
    Primitive primitive = values()[value];
    for (Access& access : primitive.accesses) access.value = number[access.value];
    if (primitive.next) primitive.next = number[*primitive.next];
    result.values.push_back(std::move(primitive));
  }
  return result;
}

}  // namespace dgx::lowering
