#pragma once

namespace dgx {

/// The instructions that this processor and system have beyond the architecture's baseline, of those that
/// dgx or its libraries make use of. All false but on x86-64.
struct Processor {
  bool avx2 = false;    ///< AVX2, FMA, BMI 1 and 2
  bool avx512 = false;  ///< also AVX-512 F, VL, DQ and BW
  bool sha = false;     ///< the SHA extensions, which libcrypto computes SHA-256 with
};

/// Asks the processor at the first call.
[[nodiscard]] const Processor& this_processor();

}  // namespace dgx
