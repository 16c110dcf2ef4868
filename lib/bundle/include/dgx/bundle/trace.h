#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/bundle/format.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// The digest of every value of one step, in the value table's order.
struct TraceValues {
  std::int64_t step = 0;
  std::vector<Digest> digests;
};

/// The numbers of one value of that step.
struct TraceNumbers {
  std::int64_t value = 0;
  Tensor tensor;
};

/// One party's digests of one segment, as deep as requested.
struct Trace {
  using Values = TraceValues;
  using Numbers = TraceNumbers;

  Digest task;
  std::int64_t segment = 0;
  std::int64_t first_step = 0;
  /// Digests of the state before first_step and after each step: one more than there are steps.
  std::vector<Digest> states;
  std::optional<TraceValues> values;
  std::optional<TraceNumbers> numbers;  ///< only with `values`
};

/// kUsage if the trace contradicts itself (numbers without values, a step or value out of range); errors of
/// AtomicFile; kIo. The same trace gives the same bytes.
[[nodiscard]] Status write_trace(AtomicFile target, const Trace& trace, Effort effort = {});
/// To a target that was not created before the work.
[[nodiscard]] Status write_trace(const std::string& path, const Trace& trace, Clobber clobber,
                                 Effort effort = {});

/// kMissing, kMalformed, kIo. With kDigests, the digest of `numbers` must be the one in `values`.
[[nodiscard]] Result<Trace> read_trace(const std::string& path, Check check = Check::kDigests,
                                       Effort effort = {});

}  // namespace dgx::bundle
