#pragma once

#include <cstdint>
#include <vector>

#include "dgx/kernels/scalar_op.h"

namespace dgx::kernels::cpu {

/// The strip interpreter: a fused expression as instructions over strips of at most kStripLength numbers that
/// stay in the first-level cache. One instruction is one scalar operation on a whole strip, so the cost of
/// interpreting is a call per strip. Each lane has the bits that kernels/ref gives for its element, with
/// every instruction set.
inline constexpr std::int64_t kStripLength = 512;

/// The type of the elements of a register. A mask (four bytes, all ones or all zeros) is the result of a
/// comparison that nothing uses as an integer.
enum class StripType : std::uint8_t { kFloat, kInteger, kMask };
[[nodiscard]] constexpr std::int64_t bytes_of(StripType type) { return type == StripType::kInteger ? 8 : 4; }

// clang-format off
/// The operations. X(name, type) is ScalarOp::kName on operands of one type (F binary32, I 64-bit integer, M
/// mask), called StripOp::kNameType. The enumeration, the tables of all instruction sets and the cases of a
/// chain follow from these lists. A new operation also needs its formula for one element (strip_plain.cc) and,
/// if it is in one of the first four lists, for vectors (strip_simd.cc).
#define DGX_STRIP_UNARY(X)  /* in chains */ \
  X(Sqrt, F) X(Neg, F) X(Abs, F) X(Floor, F) X(Trunc, F) X(Rint, F) X(Not, M)
#define DGX_STRIP_BINARY(X)  /* in chains */ \
  X(Add, F) X(Sub, F) X(Mul, F) X(Div, F) X(Max, F) X(Min, F) \
  X(Eq, F) X(Ne, F) X(Lt, F) X(Le, F) X(Gt, F) X(Ge, F) X(And, M) X(Or, M)
#define DGX_STRIP_COMPARISONS(X)  /* of integers, in chains */ \
  X(Eq, I) X(Ne, I) X(Lt, I) X(Le, I) X(Gt, I) X(Ge, I)
#define DGX_STRIP_FUNCTIONS(X)  /* too long for chains */ \
  X(Exp, F) X(Expm1, F) X(Log, F) X(Log1p, F) X(Sin, F) X(Cos, F) X(Tanh, F) X(Erf, F)
#define DGX_STRIP_INTEGERS(X)  /* not in chains */ \
  X(Add, I) X(Sub, I) X(Mul, I) X(Neg, I) X(Abs, I) X(Max, I) X(Min, I) X(Idiv, I) X(Imod, I) \
  X(Select, I) X(Select, M)
/// Conversions, named by result and operand. FloatOfByte and IntegerOfByte widen u8 memory, StoreByte narrows
/// integers 0…255 into it; ByteOfInteger saturates, and its result is an integer.
#define DGX_STRIP_CONVERSIONS(X)  \
  X(FloatOfInteger, ) X(IntegerOfFloat, ) X(ByteOfInteger, ) X(IntegerOfMask, ) X(MaskOfInteger, ) \
  X(IntegerOfByte, ) X(FloatOfByte, ) X(StoreByte, )
#define DGX_STRIP_CHAINED(X) \
  DGX_STRIP_UNARY(X) DGX_STRIP_BINARY(X) DGX_STRIP_COMPARISONS(X) X(Fma, F) X(Select, F)
#define DGX_STRIP_SCALAR_OPS(X) DGX_STRIP_CHAINED(X) DGX_STRIP_FUNCTIONS(X) DGX_STRIP_INTEGERS(X)
/// All of them. CheckFinite sets `out`, one std::uint32_t flag, to 1 if any element is infinite or NaN.
#define DGX_STRIP_OPS(X) \
  DGX_STRIP_SCALAR_OPS(X) DGX_STRIP_CONVERSIONS(X) X(Copy, F) X(Copy, I) X(CheckFinite, )
// clang-format on

#define DGX_ENUMERATOR(name, type) k##name##type,
enum class StripOp : std::uint8_t { DGX_STRIP_OPS(DGX_ENUMERATOR) };
#undef DGX_ENUMERATOR
inline constexpr int kStripOpCount = static_cast<int>(StripOp::kCheckFinite) + 1;

/// The operation that `op` is on operands of `type`; asserted: there is one.
[[nodiscard]] StripOp strip_op(ScalarOp op, StripType type);

struct StripInstruction {
  StripOp op = StripOp::kCopyF;
  std::int32_t out = 0;
  std::int32_t in[3] = {0, 0, 0};
  /// In the first instruction of a chain, its length (link_chains); 0: not in a chain.
  std::int16_t chain = 0;
  /// Bit n: in[n] is the previous result, still in processor registers; in chains only.
  std::uint8_t held = 0;
  /// Bit n: the first number of in[n] stands for all, others are not read; in chains only.
  std::uint8_t uniform = 0;
  bool stores = true;  ///< false: only the next instruction, in the same chain, reads `out`
};

/// The properties of a register that link_chains needs.
struct StripUse {
  bool stored = false;   ///< it is read outside the program
  bool uniform = false;  ///< all its elements are the same number
};

/// Marks chains: consecutive instructions that run together block by block, so that a result stays in
/// processor registers for the next instruction and is written only if it is stored or a later instruction
/// reads it. No register may be written twice, or read before it is written.
void link_chains(std::vector<StripInstruction>& program, const std::vector<StripUse>& uses);

/// Runs `program` on `count` (1 … kStripLength) elements. registers[r] points to register r: scratch of
/// kStripLength elements, or memory of exactly `count` elements for inputs and outputs. An output may be the
/// same memory as an input of the same or an earlier instruction. Uses the current instruction set
/// (dispatch.h).
void run_strip(const std::vector<StripInstruction>& program, void* const* registers, std::int64_t count);

}  // namespace dgx::kernels::cpu
