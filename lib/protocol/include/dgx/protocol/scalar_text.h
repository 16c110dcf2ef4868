#pragma once

#include <string>

#include "dgx/kernels/evaluate.h"
#include "dgx/manifest/dispute.h"

namespace dgx::protocol {

/// Scalar operations in words and hex, for readers of a ruling or a comparison.

/// "0x3f800000": 8 digits for a float, 16 for an integer.
[[nodiscard]] std::string bits_text(const kernels::Number& number);
/// The bits as stored in a value of `dtype`: 8, 16 or 2 digits.
[[nodiscard]] std::string bits_text(const kernels::Number& number, DType dtype);
/// The bits of an element in that form; a NaN keeps its own.
[[nodiscard]] std::string bits_text(const TensorView& tensor, std::int64_t element);
/// bits_text() of a number as a party posted it: a NaN keeps its own bits.
[[nodiscard]] std::string posted_text(const kernels::Number& number, DType dtype);
/// True if a posted number is the right one, bit for bit. The only NaN that may be posted is 0x7FC00000.
[[nodiscard]] bool is_posted(const kernels::Number& right, const kernels::Number& posted);
/// "value 14[37]", "accumulator", "literal", …
[[nodiscard]] std::string origin_text(const kernels::OperandRecord& operand);
/// "dot term 383", "step 2 at position 7"; for a map "step 2".
[[nodiscard]] std::string place_text(const kernels::ScalarRecord& record, bool folds);

/// "add", "fold max", …: a fold's comparison is not the scalar operation of its name, since it keeps the
/// first of NaNs (dgx-numerics(7), "Folds").
[[nodiscard]] std::string_view operation_text(const kernels::ScalarRecord& record);

/// An operation of a fold. Result and claim are numbers as computed, not as stored.
[[nodiscard]] manifest::JudgedScalar judged_scalar(const kernels::ScalarRecord& record,
                                                   const kernels::Number& claimed);
/// The last operation of an element of `line`, or "copy" if nothing is computed. Result and claim, which is
/// given in hex, are numbers as stored.
[[nodiscard]] manifest::JudgedScalar judged_scalar(const kernels::ElementTrace& trace,
                                                   const kernels::Primitive& line, std::string claimed);

/// "add of accumulator 0x… and part 0 0x… (dot group 0) is 0x…, claimed 0x…".
[[nodiscard]] std::string sentence(const manifest::JudgedScalar& scalar);

}  // namespace dgx::protocol
