#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/tensor.h"

namespace dgx::program {

/// The moving average of the parameter `model/NAME` is the entry `optimizer/ema/NAME` (dgx-lowerings(7),
/// "Optimisers").
inline constexpr std::string_view kAveragePrefix = "optimizer/ema/";

/// The average's name of a state entry; nullopt if that is not `model/NAME`.
[[nodiscard]] std::optional<std::string> average_of(std::string_view entry);

/// Lets every average that has its parameter's type and shape begin as that parameter.
void start_averages(State& state);

/// Replaces every parameter by its average, of the same type and shape, if there is one; the count of these.
std::int64_t take_averages(State& state);

}  // namespace dgx::program
