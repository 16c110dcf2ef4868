#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/kernels/primitive.h"

namespace dgx::exec {

/// The time and work of one operation of the fused plan.
struct OperationProfile {
  std::string kind;  ///< "product", "maps", "fold", … as explain() says
  /// "2048×384×1536", "sum of 384, rows": its size, where it has one.
  std::string form;
  std::vector<kernels::ValueIndex> values;  ///< all that it makes, including values in registers only
  std::string provenance;                   ///< the ATen call of the first value
  double seconds = 0;
  double arithmetic = 0;  ///< scalar operations of one run; a term of a dot counts two
  double bytes = 0;       ///< size of the values that one run reads and writes, each counted once
};

/// The steps since profiling began. Each operation's `seconds` are wall time, barriers included; the rest of
/// the total went to the batch, the schedule, random inputs and checks.
struct StepProfile {
  std::int64_t steps = 0;
  double seconds = 0;
  std::vector<OperationProfile> operations;  ///< in the order they run in
};

}  // namespace dgx::exec
