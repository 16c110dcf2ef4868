#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/jobs/verify.h"

namespace dgx::jobs {

/// A proof of a list, or a line that names none.
struct ListedProof {
  std::int64_t line = 0;  ///< from 1
  std::string task;       ///< as the line names it, or the line's text
  Result<VerifyOptions> options;
};

/// Reads a list of proofs (dgx-verify(1), "A list"): one for each line or, with a `*` in its task, for each
/// file that fits. `defaults` has what a line leaves out. Lines and files keep their order. What is wrong
/// with a line is its own error: kUsage, or kMissing if nothing fits.
[[nodiscard]] std::vector<ListedProof> parse_list(std::string_view text, const VerifyOptions& defaults);

}  // namespace dgx::jobs
