#pragma once

#include <cstdint>
#include <vector>

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

/// Suffixes name operand types where an operation exists for more than one: F binary32, I 64-bit integer, M
/// mask.
// clang-format off
enum class StripOp : std::uint8_t {
  kAddF, kSubF, kMulF, kDivF, kFmaF, kSqrtF, kNegF, kAbsF, kMaxF, kMinF,
  kFloorF, kTruncF, kRintF, kExpF, kExpm1F, kLogF, kLog1pF, kSinF, kCosF, kTanhF, kErfF,
  kEqF, kNeF, kLtF, kLeF, kGtF, kGeF,
  kEqI, kNeI, kLtI, kLeI, kGtI, kGeI,
  kSelectF, kSelectI, kSelectM, kAndM, kOrM, kNotM,
  kAddI, kSubI, kMulI, kNegI, kAbsI, kMaxI, kMinI, kIdivI, kImodI,
  kFloatOfInteger, kIntegerOfFloat, kByteOfInteger, kIntegerOfMask, kMaskOfInteger,
  kIntegerOfByte,   ///< widens u8 memory into an integer register
  kFloatOfByte,     ///< the two conversions in one
  kStoreByte,       ///< narrows integers 0…255 into u8 memory
  kCopyF, kCopyI,
  kCheckFinite,     ///< out is one std::uint32_t flag, set to 1 if any element is infinite or NaN
};
// clang-format on
inline constexpr int kStripOpCount = static_cast<int>(StripOp::kCheckFinite) + 1;

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
