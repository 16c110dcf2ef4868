#pragma once

#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"
#include "dgx/program/line.h"

namespace dgx::program {

/// Parsers of the strings inside a line; printers are in line.h. Each takes the whole string; errors name the
/// byte at which it stopped.
[[nodiscard]] Result<kernels::Access> parse_access(std::string_view text);
[[nodiscard]] Result<kernels::Step> parse_step(std::string_view text);
[[nodiscard]] Result<kernels::Operand> parse_operand(std::string_view text);

/// A decimal integer as printed: no plus, no leading zeros, no minus zero.
[[nodiscard]] Result<std::int64_t> parse_integer(std::string_view text);

}  // namespace dgx::program
