#pragma once

#include <string>

#include "dgx/kernels/evaluate.h"
#include "dgx/manifest/dispute.h"

namespace dgx::protocol {

/// A scalar operation in words and hex, for whoever reads a ruling or a comparison.

/// "0x3f800000": 8 digits of a float, 16 of an integer.
[[nodiscard]] std::string bits_text(const kernels::Number& number);
/// As it is stored in a value of `dtype`: 8, 16 or 2 digits.
[[nodiscard]] std::string bits_text(const kernels::Number& number, DType dtype);
/// The same of a number as a party posted it: of a NaN, its own bits.
[[nodiscard]] std::string posted_text(const kernels::Number& number, DType dtype);
/// True if a posted number is the right one, bit for bit. Only 0x7FC00000 is a NaN that may be posted.
[[nodiscard]] bool is_posted(const kernels::Number& right, const kernels::Number& posted);
/// "value 14[37]", "accumulator", "literal", …
[[nodiscard]] std::string origin_text(const kernels::OperandRecord& operand);
/// "dot term 383", "step 2 at position 7"; of a map "step 2".
[[nodiscard]] std::string place_text(const kernels::ScalarRecord& record, bool folds);

/// "add", "fold max", …: a fold's own comparison is not the scalar operation of its name, since of NaNs it keeps the first
/// (dgx-numerics(7), "Folds").
[[nodiscard]] std::string_view operation_text(const kernels::ScalarRecord& record);

/// An operation of a fold: result and claim are numbers as they are computed.
[[nodiscard]] manifest::JudgedScalar judged_scalar(const kernels::ScalarRecord& record,
                                                   const kernels::Number& claimed);

/// "add of accumulator 0x… and part 0 0x… (dot group 0) is 0x…, claimed 0x…".
[[nodiscard]] std::string sentence(const manifest::JudgedScalar& scalar);

}  // namespace dgx::protocol
