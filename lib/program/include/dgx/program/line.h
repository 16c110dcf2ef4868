#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "dgx/core/result.h"
#include "dgx/kernels/primitive.h"

namespace dgx::program {

/// Longest line in bytes, newline not counted. One line must fit a move of a dispute.
inline constexpr std::size_t kMaxLineBytes = 3072;
inline constexpr std::size_t kMaxSteps = 64;       ///< limit of `do`, and of `when`
inline constexpr std::size_t kMaxAccesses = 64;    ///< limit of `x`
inline constexpr std::size_t kMaxTerms = 16;       ///< limit of one coordinate
inline constexpr std::size_t kMaxNameBytes = 256;  ///< limit of a state entry's name
/// Coefficients, constants and divisors of coordinates, and dimensions, are at most this in magnitude.
inline constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

/// One line of a step program (dgx-program(5), "Lines"): canonical JSON, no newline. `primitive` must be in
/// normal form, which is what parse_line and Builder give: terms of a coordinate in order of symbol then
/// index, each once and with a coefficient other than 0; a divisor of at least 2 where there is a division, 1
/// otherwise; no NaN.
[[nodiscard]] std::string print_line(const kernels::Primitive& primitive, kernels::ValueIndex value);

/// Parses `text`, which must be the line of value `value`. Exact inverse of print_line: kMalformed, with line
/// number and byte position, for anything that print_line would not have written so. Does not check meaning:
/// see check.h.
[[nodiscard]] Result<kernels::Primitive> parse_line(std::string_view text, kernels::ValueIndex value);

/// Parts of a line, for messages and explanations of an element.
[[nodiscard]] std::string print_access(const kernels::Access& access);
[[nodiscard]] std::string print_step(const kernels::Step& step);
[[nodiscard]] std::string print_operand(const kernels::Operand& operand);

/// A number as it stands in a line, or among an input's constants: float or integer. parse_literal():
/// kMalformed if it is not in its one form.
[[nodiscard]] std::string print_literal(const kernels::Literal& literal);
[[nodiscard]] Result<kernels::Literal> parse_literal(std::string_view text);

}  // namespace dgx::program
