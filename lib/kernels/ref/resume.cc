#include <fmt/format.h>

#include "dgx/kernels/dot_state.h"
#include "numbers.h"

namespace dgx::kernels {
namespace {

struct LocalNumbers : PlainNumbers {};  // local, so that what it instantiates is inlined

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
  Element<LocalNumbers, const TensorSource> element{dot, source, {}};
  seek_element(element, begin);
  for (std::int64_t e = begin; e < end; ++e, next_element(element)) {
    DotState state = states[static_cast<std::size_t>(e - begin)];
    for (std::int64_t p = 0; p < dot.fold_count; ++p, next_position(element))
      state.take(read(element, 0).real, read(element, 1).real);
    states[static_cast<std::size_t>(e - begin)] = state;
  }
  return {};
}

}  // namespace dgx::kernels
