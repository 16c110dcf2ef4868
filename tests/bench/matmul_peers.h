#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dgx/kernels/cpu/matmul.h"

namespace dgx::bench {

/// Another library's product, for comparison.
struct Peer {
  std::string name;
  /// Makes a call of C = A · B with `threads` threads; operands are row-major or the transpose of row-major.
  std::function<std::function<void()>(const kernels::cpu::MatmulShape& shape, const float* a,
                                      bool a_transposed, const float* b, bool b_transposed, float* c,
                                      int threads)>
      prepare;
};

/// The peers that this build found.
std::vector<Peer> peers();

}  // namespace dgx::bench
