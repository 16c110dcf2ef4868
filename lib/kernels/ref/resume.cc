#include <fmt/format.h>

#include <bit>

#include "dgx/kernels/dot_state.h"
#include "numbers.h"

namespace dgx::kernels {
namespace {

struct LocalNumbers : PlainNumbers {};  // local, so that what it instantiates is inlined
using Local = Element<LocalNumbers, const TensorSource>;

float flipped(float number, int bit) {
  return canonical_nan(std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) ^ (1U << bit)));
}

float flipped_dot(Local& element, std::int64_t positions, std::int64_t position, int bit) {
  DotState state;
  for (std::int64_t p = 0; p < positions; ++p, next_position(element)) {
    if (p == position) {
      const DotWords words = dot_words_at(position);
      float& word = words.block ? state.block : words.group ? state.group : state.total;
      word = flipped(word, bit);
    }
    state.take(read(element, 0).real, read(element, 1).real);
  }
  return canonical_nan(state.end());
}

Number flipped_chain(Local& element, NumberType type, std::int64_t positions, std::int64_t position,
                     int bit) {
  Local::Running running = start(element);
  for (std::int64_t p = 0; p < positions; ++p, next_position(element)) {
    if (p == position && type == NumberType::kFloat) {
      running.value = Slot::of(flipped(running.value.real, bit));
    } else if (p == position) {
      const auto bits = static_cast<std::uint64_t>(running.value.integer) ^ (std::uint64_t{1} << bit);
      running.value = Slot::of(static_cast<std::int64_t>(bits));
    }
    take(element, p, running);
  }
  const Number last = number_of(type, running.value);
  return type == NumberType::kFloat ? Number::of(canonical_nan(last.real)) : last;
}

}  // namespace

Status resume_dots(const CompiledPrimitive& dot, const ByValue<TensorView>& values,
                   std::span<DotState> states, std::int64_t begin, std::int64_t end) {
  if (dot.kind != Kind::kDot) return internal_error(fmt::format("a {} goes on as a dot", name_of(dot.kind)));
  if (begin < 0 || begin > end || end > dot.count || states.size() != static_cast<std::size_t>(end - begin)) {
    return internal_error(
        fmt::format("no elements {} to {} with {} states in {}", begin, end, states.size(), dot.count));
  }
  DGX_TRY(const TensorSource source, TensorSource::bind(dot, values));
  if (begin == end) return {};
  Local element{dot, source, {}};
  seek_element(element, begin);
  for (std::int64_t e = begin; e < end; ++e, next_element(element)) {
    DotState state = states[static_cast<std::size_t>(e - begin)];
    for (std::int64_t p = 0; p < dot.fold_count; ++p, next_position(element))
      state.take(read(element, 0).real, read(element, 1).real);
    states[static_cast<std::size_t>(e - begin)] = state;
  }
  return {};
}

Result<Number> flipped_fold(const CompiledPrimitive& primitive, const ByValue<TensorView>& values,
                            std::int64_t element, std::int64_t position, int bit) {
  const bool is_dot = primitive.kind == Kind::kDot;
  const bool has_state = is_dot || (primitive.kind == Kind::kChain && primitive.dtype != DType::kU8);
  const int bits = static_cast<int>(8 * size_of(primitive.dtype));
  if (!has_state || element < 0 || element >= primitive.count || position <= 0 ||
      position >= primitive.fold_count || bit < 0 || bit >= bits) {
    return internal_error(fmt::format("no bit {} behind position {} in element {} of a {}", bit, position,
                                      element, name_of(primitive.kind)));
  }
  DGX_TRY(const TensorSource source, TensorSource::bind(primitive, values));
  Local local{primitive, source, {}};
  seek_element(local, element);
  if (is_dot) return Number::of(flipped_dot(local, primitive.fold_count, position, bit));
  return flipped_chain(local, number_type(primitive.dtype), primitive.fold_count, position, bit);
}

}  // namespace dgx::kernels
