#include "dgx/program/averages.h"

namespace dgx::program {
namespace {

/// Calls `visit` with each parameter that has an average of its type and shape, and with the average.
template <typename Visit>
void for_averages(State& state, const Visit& visit) {
  for (Entry& parameter : state) {
    const auto name = average_of(parameter.name);
    Entry* const average = name ? find_entry(state, *name) : nullptr;
    if (average != nullptr && average->tensor.dtype() == parameter.tensor.dtype() &&
        average->tensor.shape() == parameter.tensor.shape())
      visit(parameter.tensor, average->tensor);
  }
}

}  // namespace

std::optional<std::string> average_of(std::string_view entry) {
  constexpr std::string_view kModel = "model/";
  if (!entry.starts_with(kModel)) return std::nullopt;
  return std::string(kAveragePrefix).append(entry.substr(kModel.size()));
}

void start_averages(State& state) {
  for_averages(state, [](const Tensor& parameter, Tensor& average) { average = parameter; });
}

std::int64_t take_averages(State& state) {
  std::int64_t count = 0;
  for_averages(state, [&](Tensor& parameter, const Tensor& average) {
    parameter = average;
    ++count;
  });
  return count;
}

}  // namespace dgx::program
