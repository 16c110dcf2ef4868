#pragma once

#include <cstdint>
#include <vector>

namespace dgx::kernels::cpu {

/// The strip interpreter: a fused expression as instructions over strips of at most kStripLength numbers that stay in
/// the first-level cache. One instruction is one scalar operation on a whole strip, so the cost of interpreting is a
/// call per strip. Each lane is what kernels/ref gives for its element, for every instruction set.
inline constexpr std::int64_t kStripLength = 512;

/// What a register holds per element. A mask (four bytes, all ones or all zeros) is the result of a comparison while
/// nobody needs it as an integer.
enum class StripType : std::uint8_t { kFloat, kInteger, kMask };
[[nodiscard]] constexpr std::int64_t bytes_of(StripType type) { return type == StripType::kInteger ? 8 : 4; }

/// Suffixes name operand types where an operation exists for more than one: F binary32, I 64-bit integer, M mask.
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
inline constexpr int kStripOpCount = static_cast<int>(StripOp::kCheckFinite) + 1;

struct StripInstruction {
  StripOp op = StripOp::kCopyF;
  std::int32_t out = 0;
  std::int32_t in[3] = {0, 0, 0};
  std::int16_t chain = 0;    ///< this many instructions from here pass over the strip together (link_chains); 0: this one alone
  std::uint8_t held = 0;     ///< bit n: in[n] is what the instruction before made, which a chain still has in registers
  std::uint8_t uniform = 0;  ///< bit n: of in[n] only the first number is read, and stands for all; in chains only
  bool stores = true;        ///< if not, nobody but the next instruction, in the same chain, reads `out`
};

/// What link_chains needs to know of a register.
struct StripUse {
  bool stored = false;   ///< somebody else reads it
  bool uniform = false;  ///< all its numbers are one
};

/// Marks chains: instructions that pass over a strip together, so that what one makes stays in processor registers for the next and
/// is written only where it is stored or a later instruction reads it. No register may be written twice, nor may any be read before it
/// is written.
void link_chains(std::vector<StripInstruction>& program, const std::vector<StripUse>& uses);

/// Runs `program` on `count` (1 … kStripLength) elements. registers[r] is where register r lies: scratch of
/// kStripLength elements, or memory of exactly `count` elements for inputs and outputs. An output may be the same
/// memory as an input of the same instruction or of one before. Uses the current instruction set (dispatch.h).
void run_strip(const std::vector<StripInstruction>& program, void* const* registers, std::int64_t count);

}  // namespace dgx::kernels::cpu
