#include <fmt/format.h>

#include <algorithm>

#include "bisect/diff_side.h"
#include "dgx/jobs/bisect.h"
#include "dgx/protocol/bisect.h"
#include "dgx/protocol/scalar_text.h"
#include "verify/proved_run.h"

namespace dgx::jobs {

std::string_view name_of(Confirmed confirmed) {
  switch (confirmed) {
    case Confirmed::kOurs: return "ours";
    case Confirmed::kTheirs: return "theirs";
    case Confirmed::kNeither: return "neither";
  }
  return {};
}

namespace {

template <class T>
Confirmed whom(const T& replay, const T& ours, const T& theirs) {
  if (replay == ours) return Confirmed::kOurs;
  return replay == theirs ? Confirmed::kTheirs : Confirmed::kNeither;
}

std::string source_text(const kernels::Source& source) {
  switch (source.kind) {
    case kernels::Source::Kind::kState: return "state " + source.name;
    case kernels::Source::Kind::kBatch: return "batch " + source.name;
    case kernels::Source::Kind::kSchedule: return fmt::format("schedule {}", fmt::join(source.of, ", "));
    case kernels::Source::Kind::kConstant: return "constant";
    case kernels::Source::Kind::kUniform: return "uniform " + source.name;
  }
  return {};
}

/// One descent from segment to scalar operation. A level that the files do not reach is kMissing, with the
/// reason: that is where the descent ends.
class Descent {
 public:
  /// `honest` is null if there is no state to replay from.
  Descent(const TaskFiles& files, DiffSide& ours, DiffSide& theirs, SegmentReplay* honest, DiffResult& result)
      : files_(files), ours_(ours), theirs_(theirs), honest_(honest), result_(result) {}

  /// Descends from a segment: the first in which the sides diverge, or that of two traces, whose ends may
  /// agree.
  Status from_segment(std::int64_t segment, const Digest& our_end, const Digest& their_end) {
    if (honest_ != nullptr && our_end != their_end) {
      const auto honest = honest_->states();
      if (!honest.ok() && honest.error().code == ErrorCode::kMalformed) {
        // A step that is not finite is in neither side's segment: both have a state at its end.
        result_.segment = segment;
        result_.confirmed = Confirmed::kNeither;
        result_.ended = "an honest replay diverges before the segment's end: " + honest.error().message;
        return {};
      }
      if (!honest.ok()) return honest.error();
      result_.confirmed = whom(honest->back(), our_end, their_end);
    }
    if (our_end != their_end) result_.segment = segment;
    Status status = find_all(segment);
    if (status.ok() || status.error().code != ErrorCode::kMissing) return status;
    result_.ended = status.error().message;
    return {};
  }

 private:
  static Error end(std::string why) { return {ErrorCode::kMissing, std::move(why), {}}; }

  Status find_all(std::int64_t segment) {
    DGX_CHECK(find_step(segment));
    DGX_CHECK(find_value());
    DGX_CHECK(find_element());
    return find_scalar();
  }

  Status find_step(std::int64_t segment) {
    const auto our_states = ours_.states();
    const auto their_states = theirs_.states();
    for (const auto* states : {&our_states, &their_states}) {
      if (states->ok()) continue;
      const Error& error = states->error();
      if (error.code == ErrorCode::kMissing && !result_.segment)
        return end({});  // the ends agree, and there is no way inside
      if (error.code == ErrorCode::kMissing && honest_ == nullptr && ours_.run() && theirs_.run())
        return end("the last agreed state is not in the files and does not follow from a kept checkpoint");
      return error;
    }
    DGX_TRY(const auto at, protocol::first_divergence(*our_states, *their_states));
    if (!at) return same_states(segment);
    result_.segment = segment;
    result_.step = files_.segments[segment].first + *at - 1;
    if (honest_ == nullptr) return {};
    DGX_TRY(const auto honest, honest_->states());
    return confirm(*at, honest, *our_states, *their_states, "steps");
  }

  /// All states agree; two traces may still differ in the values of a step.
  Status same_states(std::int64_t segment) {
    for (const DiffSide* side : {&ours_, &theirs_}) {
      if (side->trace() == nullptr || !side->trace()->values) return end({});
    }
    const bundle::TraceValues& ours = *ours_.trace()->values;
    const bundle::TraceValues& theirs = *theirs_.trace()->values;
    if (ours.step != theirs.step || ours.digests == theirs.digests) return end({});
    result_.segment = segment;
    result_.step = ours.step;
    return {};
  }

  /// Says whom the honest list confirms at `at`, the first place at which the sides' lists differ.
  Status confirm(std::int64_t at, const std::vector<Digest>& honest, const std::vector<Digest>& ours,
                 const std::vector<Digest>& theirs, std::string_view what) {
    const auto place = static_cast<std::size_t>(at);
    result_.confirmed = whom(honest[place], ours[place], theirs[place]);
    if (std::equal(honest.begin(), honest.begin() + at, ours.begin())) return {};
    result_.confirmed = Confirmed::kNeither;
    return end(fmt::format("both sides differ from the honest {} before this one", what));
  }

  Status find_value() {
    DGX_TRY(const auto our_values, ours_.values(*result_.step));
    DGX_TRY(const auto their_values, theirs_.values(*result_.step));
    DGX_TRY(const auto at, protocol::first_divergence(our_values, their_values));
    if (!at)
      return end(
          "all values of the step agree: one side's state after the step does not follow from its own "
          "values");
    value_ = kernels::ValueIndex(*at);
    const bool input = line().kind == kernels::Kind::kInput;
    result_.value = {*at, std::string(kernels::name_of(line().kind)),
                     input ? source_text(line().source) : line().provenance};
    if (honest_ == nullptr) return {};
    DGX_TRY(const auto honest, honest_->values(*result_.step));
    return confirm(*at, honest, our_values, their_values, "values");
  }

  Status find_element() {
    DGX_TRY(our_numbers_, ours_.value(*result_.step, value_));
    DGX_TRY(their_numbers_, theirs_.value(*result_.step, value_));
    for (const auto& [side, numbers] :
         {std::pair(&ours_, &our_numbers_), std::pair(&theirs_, &their_numbers_)}) {
      if (numbers->dtype() == line().dtype && numbers->shape() == line().shape) continue;
      return end(fmt::format("{}: the numbers of value {} do not have the program's type and shape",
                             side->path(), value_));
    }
    DGX_TRY(result_.element, protocol::first_divergent_element(our_numbers_.view(), their_numbers_.view()));
    if (!result_.element) return internal_error("equal numbers with different digests");
    return {};
  }

  Status find_scalar() {
    if (honest_ == nullptr) return end("no start state to replay from; give one with --from");
    const std::int64_t element = *result_.element;
    result_.our_bits = protocol::bits_text(our_numbers_.view(), element);
    DGX_TRY(result_.scalar,
            protocol::last_operation(*files_.program, *honest_, *result_.step, value_, element,
                                     protocol::bits_text(their_numbers_.view(), element)));
    result_.confirmed = whom(result_.scalar->result, result_.our_bits, result_.scalar->claimed);
    return {};
  }

  [[nodiscard]] const kernels::Primitive& line() const { return files_.program->values[value_]; }

  const TaskFiles& files_;
  DiffSide& ours_;
  DiffSide& theirs_;
  SegmentReplay* honest_;
  DiffResult& result_;
  kernels::ValueIndex value_{};
  Tensor our_numbers_;
  Tensor their_numbers_;
};

/// Refuses two runs that agree as far as both go, but of which one diverged and the other went on: the files
/// do not say who is right.
Status check_end(const DiffSide& ours, const DiffSide& theirs) {
  for (const auto& [one, other] : {std::pair(&ours, &theirs), std::pair(&theirs, &ours)}) {
    const bundle::RunIndex& index = *one->run();
    const std::int64_t end = index.checkpoints.back().step;
    if (!index.diverged || other->run()->checkpoints.back().step <= end) continue;
    return Error{
        ErrorCode::kInconclusive,
        fmt::format("{}: says that step {} diverges, but {} continues; before that step they agree",
                    one->path(), end, other->path()),
        "dgx-train on the same data shows who is right; dgx-bisect open challenges a proof that says so"};
  }
  return {};
}

/// The segment to look into: the first in which two runs differ, or the trace's. nullopt: nothing differs.
Result<std::optional<std::int64_t>> choose_segment(const DiffSide& ours, const DiffSide& theirs,
                                                   DiffResult& result) {
  if (ours.run() && theirs.run()) {
    const bundle::RunIndex& our_index = *ours.run();
    const bundle::RunIndex& their_index = *theirs.run();
    std::vector<Digest> our_states = digests_in(our_index);
    std::vector<Digest> their_states = digests_in(their_index);
    std::size_t common = std::min(our_states.size(), their_states.size());
    const auto ends_run = [&](const bundle::RunIndex& index) {
      return index.diverged && index.checkpoints.size() == common;
    };
    // A run that diverged ends at a step at which the other may have no checkpoint.
    const bool alike = our_index.checkpoints[common - 1].step == their_index.checkpoints[common - 1].step;
    if (!alike && (ends_run(our_index) || ends_run(their_index))) --common;
    our_states.resize(common);
    their_states.resize(common);
    result.compared = static_cast<std::int64_t>(common) - 1;
    DGX_TRY(const auto segment, protocol::first_divergent_segment(our_states, their_states));
    if (!segment) DGX_CHECK(check_end(ours, theirs));
    return segment;
  }
  result.compared = 1;
  const bundle::Trace* const our_trace = ours.trace();
  const bundle::Trace* const their_trace = theirs.trace();
  if (our_trace && their_trace && our_trace->segment != their_trace->segment) {
    return malformed(fmt::format("{} is a trace of segment {}, {} of segment {}", ours.path(),
                                 our_trace->segment, theirs.path(), their_trace->segment));
  }
  const std::int64_t segment = (our_trace ? our_trace : their_trace)->segment;
  DGX_TRY(const Digest our_start, ours.boundary(segment, 0));
  DGX_TRY(const Digest their_start, theirs.boundary(segment, 0));
  if (our_start == their_start) return std::optional<std::int64_t>(segment);
  return malformed(fmt::format("the sides already differ before segment {}", segment),
                   "compare an earlier segment");
}

/// The part of the segment that both sides have.
Result<protocol::Segment> common_part(const TaskFiles& files, const DiffSide& ours, const DiffSide& theirs,
                                      std::int64_t segment) {
  const protocol::Segment out = ours.part_of(files.segments[segment]);
  const protocol::Segment other = theirs.part_of(files.segments[segment]);
  if (out == other) return out;
  return malformed(fmt::format("{} has steps {} to {} of segment {}, {} has {} to {}", ours.path(), out.first,
                               out.end - 1, segment, theirs.path(), other.first, other.end - 1),
                   "one of them is from a run that diverged, or claims to be: compare the runs");
}

/// Gives `source` the state that both sides agree on: the first candidate with this digest. False if there is
/// none, which is no error: the files alone may suffice.
Result<bool> find_start(ReplaySource& source, const DiffOptions& options, const DiffSide& ours,
                        const DiffSide& theirs, std::int64_t segment) {
  const TaskFiles& files = source.files();
  DGX_TRY(const Digest wanted, ours.boundary(segment, 0));
  const auto fits = [&](const State& state) {
    const auto step = step_of(state);
    if (!step.ok() || *step != files.segments.boundary(segment)) return false;
    const auto digests = merkle::state_digests(state, source.context().threads);
    return digests.ok() && digests->state == wanted;
  };
  if (options.from) {
    source.start_from(*options.from, segment, std::nullopt);
    DGX_TRY(const State* const start, source.start());
    if (fits(*start)) return true;
    return malformed(
        fmt::format("{}: not the state that both sides say segment {} starts from", *options.from, segment));
  }
  const auto take = [&](Result<State> candidate) {
    if (!candidate.ok() || !fits(*candidate)) return false;
    source.start_at(std::move(candidate).value());
    return true;
  };
  if (segment == 0 && take(initial_state(files, std::nullopt))) return true;
  for (const DiffSide* side : {&ours, &theirs}) {
    if (side->run() != nullptr && take(source.read_start(side->path(), segment))) return true;
  }
  return false;
}

}  // namespace

Result<DiffResult> diff(const DiffOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(DiffSide ours, DiffSide::open(files, options.ours, context.threads));
  DGX_TRY(DiffSide theirs, DiffSide::open(files, options.theirs, context.threads));
  ReplaySource source(files, options.data, options.parts, context);
  DGX_CHECK(source.data());
  DiffResult result;
  DGX_TRY(const auto segment, choose_segment(ours, theirs, result));
  if (!segment) return result;
  DGX_TRY(const Digest our_end, ours.boundary(*segment, 1));
  DGX_TRY(const Digest their_end, theirs.boundary(*segment, 1));
  DGX_TRY(const protocol::Segment part, common_part(files, ours, theirs, *segment));
  DGX_CHECK(source.executor());
  DGX_TRY(const bool found, find_start(source, options, ours, theirs, *segment));
  SegmentReplay replay(part, source);
  SegmentReplay* const honest = found ? &replay : nullptr;
  ours.enter(part, honest, source);
  theirs.enter(part, honest, source);
  Descent descent(files, ours, theirs, honest, result);
  DGX_CHECK(descent.from_segment(*segment, our_end, their_end));
  return result;
}

}  // namespace dgx::jobs
