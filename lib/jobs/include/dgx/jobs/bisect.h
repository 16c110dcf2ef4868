#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/manifest/dispute.h"

namespace dgx::jobs {

/// dgx-bisect trace (dgx-bisect(1)).
struct TraceOptions {
  std::string task;
  std::optional<std::string> program;
  /// A run, a state bundle at the segment's first step, or a sample that has it.
  std::string from;
  std::int64_t segment = 0;
  std::optional<std::int64_t> step;   ///< a step of the task, inside the segment
  std::optional<std::int64_t> value;  ///< only with `step`
  std::string data;
  std::string output;      ///< TRACE.h5
  bool drill = false;      ///< defend the fault that the run notes
  std::int64_t parts = 1;  ///< of each batch, made one after another
  std::optional<std::string> isa;
};

struct TraceResult {
  std::int64_t segment = 0;
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  Digest start;                       ///< digest of the state before first_step
  Digest end;                         ///< digest of the state after the segment
  std::optional<std::int64_t> step;   ///< the step whose values were digested
  std::int64_t values = 0;            ///< how many values
  std::optional<std::int64_t> value;  ///< the value whose numbers were kept
  std::optional<Digest> value_digest;
  std::optional<std::string> drill;  ///< the run's deliberate fault, if this trace defends it
};

/// Recomputes one segment from its committed start state and writes its digests: of the state after every
/// step; with `step`, of every value of that step; with `value`, also that value's numbers.
///
/// With `drill`, from a run that notes one, the trace is a cheat's: it has the fault and leads to the state
/// that the run committed. In a lazy segment the state after k steps is what a lazy solver would show then
/// (lazy_state), and the values of a step are the honest ones except those that become state entries, which
/// are the claimed entries.
///
/// kUsage: segment, step or value out of range, no drill to defend, or, with `drill`, a segment that the run
/// has not committed; parts that the program forbids; kMalformed: a start state at another
/// step, of another task, or a run whose recomputed state is not the one it committed; kMissing: the sample
/// does not have the segment.
[[nodiscard]] Result<TraceResult> trace(const TraceOptions& options, const JobContext& context);

/// dgx-bisect diff (dgx-bisect(1)).
struct DiffOptions {
  std::string task;
  std::optional<std::string> program;
  std::string ours;  ///< a run or a trace
  std::string theirs;
  std::string data;
  std::optional<std::string> from;  ///< start state for two traces: as TraceOptions::from
  std::int64_t parts = 1;           ///< of each batch, made one after another
  std::optional<std::string> isa;
};

/// The side that an honest replay from the last agreed state confirms.
enum class Confirmed { kOurs, kTheirs, kNeither };
[[nodiscard]] std::string_view name_of(Confirmed confirmed);

/// The value at which two parties diverge: a line of the step program.
struct DivergentValue {
  std::int64_t number = 0;
  std::string kind;  ///< "input", "map", "dot", …
  std::string from;  ///< the ATen call; of an input, its source
};

struct DiffResult {
  std::int64_t compared = 0;            ///< segments that both sides have
  std::optional<std::int64_t> segment;  ///< none: no difference
  std::optional<std::int64_t> step;
  std::optional<DivergentValue> value;
  std::optional<std::int64_t> element;
  /// The element's last scalar operation by the replay, next to what theirs claims; "input" and "copy" where
  /// nothing is computed.
  std::optional<manifest::JudgedScalar> scalar;
  std::string our_bits;                ///< the element by our side, in hex like `scalar`'s
  std::optional<Confirmed> confirmed;  ///< at the deepest level reached; none if no replay was possible
  /// The reason for going no deeper; empty if it went all the way, or nothing differs.
  std::string ended;
};

/// Finds the first segment, step, value, element and scalar operation at which two parties' files diverge, as
/// deep as files and replay allow.
///
/// A side's digests inside a segment come from its trace; from the replay, if the replay confirms the side's
/// committed end state; or from its run's own drill, defended as by trace(). Everything else is recomputed
/// honestly from the last state on which both agree; each level says whom the replay confirms. A side that is
/// only a run, with neither of these, is followed down to the segment.
///
/// kMalformed: files of another task, traces of different segments, or sides that differ before the first
/// state compared.
[[nodiscard]] Result<DiffResult> diff(const DiffOptions& options, const JobContext& context);

}  // namespace dgx::jobs
