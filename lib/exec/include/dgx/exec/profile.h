#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/kernels/primitive.h"

namespace dgx::exec {

/// What one operation of the fused plan has taken.
struct OperationProfile {
  std::string kind;                         ///< "product", "maps", "fold", … as explain() says
  std::string form;                         ///< "2048×384×1536", "sum of 384, rows": its size, where it has one
  std::vector<kernels::ValueIndex> values;  ///< that it makes, those in registers included
  std::string provenance;                   ///< the ATen call of the first of them
  double seconds = 0;
  double arithmetic = 0;                    ///< scalar operations of one run; a term of a dot counts two
  double bytes = 0;                         ///< of the values that one run reads and writes, each once
};

/// Steps since profiling began. The operations' seconds are the wall's, barrier included; what is missing to `seconds` went to the
/// batch, the schedule, random inputs and checks.
struct StepProfile {
  std::int64_t steps = 0;
  double seconds = 0;
  std::vector<OperationProfile> operations;  ///< in the order they run in
};

}  // namespace dgx::exec
