#include <fmt/format.h>

#include <algorithm>

#include "dgx/jobs/bisect.h"
#include "dgx/protocol/bisect.h"
#include "parties.h"
#include "pinpoint.h"

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

/// One descent from segment to scalar operation. Each level returns whether the next can be entered, and
/// otherwise puts the reason into result.ended.
class Descent {
 public:
  Descent(const TaskFiles& files, const Party& ours, const Party& theirs, Claims& claims, DiffResult& result)
      : files_(files), ours_(ours), theirs_(theirs), claims_(claims), result_(result) {}

  /// Descends from the segment in which the sides diverge; of two traces, which may not diverge at all.
  Status from_segment(std::int64_t segment, const Digest& our_end, const Digest& their_end) {
    if (claims_.can_replay() && our_end != their_end) {
      DGX_TRY(const auto honest, claims_.honest_states());
      result_.confirmed = whom(honest.back(), our_end, their_end);
    }
    if (our_end != their_end) result_.segment = segment;
    DGX_TRY(const bool step_found, find_step(segment));
    if (!step_found) return {};
    DGX_TRY(const bool value_found, find_value());
    if (!value_found) return {};
    DGX_TRY(const bool element_found, find_element());
    if (!element_found) return {};
    return find_scalar();
  }

 private:
  bool stop(std::string why) { return result_.ended = std::move(why), false; }

  bool not_at_hand(const Party& party, const std::string& options) {
    return stop(fmt::format("{} has nothing deeper; its owner can make it: dgx-bisect trace --segment {}{}",
                            party.path, *result_.segment, options));
  }

  Result<bool> find_step(std::int64_t segment) {
    DGX_TRY(const auto our_states, claims_.states(ours_));
    DGX_TRY(const auto their_states, claims_.states(theirs_));
    if (!our_states || !their_states) {
      if (!result_.segment) return false;  // the ends agree, and there is no way inside
      if (!claims_.can_replay() && ours_.run && theirs_.run) {
        return stop(
            "the last agreed state is not in the files, nor does it follow from a checkpoint that was kept");
      }
      return not_at_hand(our_states ? theirs_ : ours_, "");
    }
    DGX_TRY(const auto at, protocol::first_divergence(*our_states, *their_states));
    if (!at) return same_states(segment);
    result_.segment = segment;
    result_.step = files_.segments[segment].first + *at - 1;
    if (!claims_.can_replay()) return true;
    DGX_TRY(const auto honest, claims_.honest_states());
    const auto after = static_cast<std::size_t>(*at);
    result_.confirmed = whom(honest[after], (*our_states)[after], (*their_states)[after]);
    if (std::equal(honest.begin(), honest.begin() + *at, our_states->begin())) return true;
    result_.confirmed = Confirmed::kNeither;
    return stop("both sides left the honest steps before this one");
  }

  /// All states agree; two traces may still differ in the values of a step.
  Result<bool> same_states(std::int64_t segment) {
    const auto has_values = [](const Party& party) { return party.trace && party.trace->values; };
    if (!has_values(ours_) || !has_values(theirs_)) return false;
    if (ours_.trace->values->step != theirs_.trace->values->step) return false;
    if (ours_.trace->values->digests == theirs_.trace->values->digests) return false;
    result_.segment = segment;
    result_.step = ours_.trace->values->step;
    return true;
  }

  Result<bool> find_value() {
    const std::string options = fmt::format(" --step {}", *result_.step);
    DGX_TRY(const auto our_values, claims_.values(ours_, *result_.step));
    if (!our_values) return not_at_hand(ours_, options);
    DGX_TRY(const auto their_values, claims_.values(theirs_, *result_.step));
    if (!their_values) return not_at_hand(theirs_, options);
    DGX_TRY(const auto at, protocol::first_divergence(*our_values, *their_values));
    if (!at)
      return stop(
          "all values of the step agree: one side's state after the step is not made of its own values");
    value_ = static_cast<std::int32_t>(*at);
    result_.value = describe_value(*files_.program, value_);
    if (!claims_.can_replay()) return true;
    DGX_TRY(const auto honest, claims_.honest_values(*result_.step));
    const auto v = static_cast<std::size_t>(value_);
    result_.confirmed = whom(honest[v], (*our_values)[v], (*their_values)[v]);
    if (std::equal(honest.begin(), honest.begin() + value_, our_values->begin())) return true;
    result_.confirmed = Confirmed::kNeither;
    return stop("both sides left the honest values before this one");
  }

  Result<bool> find_element() {
    const std::string options = fmt::format(" --step {} --value {}", *result_.step, value_);
    DGX_TRY(our_numbers_, claims_.numbers(ours_, *result_.step, value_));
    if (!our_numbers_) return not_at_hand(ours_, options);
    DGX_TRY(their_numbers_, claims_.numbers(theirs_, *result_.step, value_));
    if (!their_numbers_) return not_at_hand(theirs_, options);
    const kernels::Primitive& line = files_.program->values[static_cast<std::size_t>(value_)];
    for (const auto* numbers : {&*our_numbers_, &*their_numbers_}) {
      if (numbers->dtype() == line.dtype && numbers->shape() == line.shape) continue;
      const bool mine = numbers == &*our_numbers_;
      return stop(fmt::format("{}: numbers of value {} are not of the program's type and shape",
                              (mine ? ours_ : theirs_).path, value_));
    }
    DGX_TRY(result_.element, protocol::first_divergent_element(our_numbers_->view(), their_numbers_->view()));
    if (!result_.element) return internal_error("equal numbers with different digests");
    return true;
  }

  Status find_scalar() {
    if (!claims_.can_replay()) return stop("no start state to replay from; give one with --from"), Status();
    std::vector<std::int32_t> wanted = operands_of(*files_.program, value_);
    wanted.push_back(value_);
    DGX_TRY(const auto numbers, claims_.honest_numbers(*result_.step, wanted));
    DGX_TRY(result_.scalar, pinpoint(*files_.program, numbers, value_, *result_.element, our_numbers_->view(),
                                     their_numbers_->view()));
    result_.confirmed = whom(result_.scalar->result, result_.scalar->ours, result_.scalar->theirs);
    return {};
  }

  const TaskFiles& files_;
  const Party& ours_;
  const Party& theirs_;
  Claims& claims_;
  DiffResult& result_;
  std::int32_t value_ = 0;
  std::optional<Tensor> our_numbers_;
  std::optional<Tensor> their_numbers_;
};

/// Refuses two runs that agree as far as both go, but of which one diverged and the other went on: the files
/// do not say who is right.
Status check_end(const Party& ours, const Party& theirs) {
  for (const auto& [one, other] : {std::pair(&ours, &theirs), std::pair(&theirs, &ours)}) {
    const bundle::RunIndex& index = one->run->index();
    const std::int64_t end = index.checkpoints.back().step;
    if (!index.diverged || other->run->index().checkpoints.back().step <= end) continue;
    return Error{
        ErrorCode::kInconclusive,
        fmt::format("{}: says that step {} diverges, where {} goes on; before it they agree", one->path, end,
                    other->path),
        "dgx-train on the same data shows who is right; dgx-bisect open challenges a proof that says so"};
  }
  return {};
}

/// The segment to look into: the first in which two runs differ, or the trace's. nullopt: nothing differs.
Result<std::optional<std::int64_t>> choose_segment(const Party& ours, const Party& theirs,
                                                   DiffResult& result) {
  if (ours.run && theirs.run) {
    std::vector<Digest> our_states = ours.committed();
    std::vector<Digest> their_states = theirs.committed();
    std::size_t common = std::min(our_states.size(), their_states.size());
    const auto ends_run = [&](const bundle::RunIndex& index) {
      return index.diverged && index.checkpoints.size() == common;
    };
    const auto& our_index = ours.run->index();
    const auto& their_index = theirs.run->index();
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
  if (ours.trace && theirs.trace && ours.trace->segment != theirs.trace->segment) {
    return malformed(fmt::format("{} is a trace of segment {}, {} of segment {}", ours.path,
                                 ours.trace->segment, theirs.path, theirs.trace->segment));
  }
  const std::int64_t segment = ours.trace ? ours.trace->segment : theirs.trace->segment;
  DGX_TRY(const Digest our_start, ours.boundary(segment, 0));
  DGX_TRY(const Digest their_start, theirs.boundary(segment, 0));
  if (our_start == their_start) return std::optional<std::int64_t>(segment);
  return malformed(fmt::format("the sides differ before segment {} already", segment),
                   "compare an earlier segment");
}

/// The part of the segment that both sides have.
Result<protocol::Segment> common_part(const TaskFiles& files, const Party& ours, const Party& theirs,
                                      std::int64_t segment) {
  const protocol::Segment out = ours.part_of(files.segments[segment]);
  const protocol::Segment other = theirs.part_of(files.segments[segment]);
  if (out == other) return out;
  return malformed(fmt::format("{} has steps {} to {} of segment {}, {} has {} to {}", ours.path, out.first,
                               out.end - 1, segment, theirs.path, other.first, other.end - 1),
                   "one of them is of a run that diverged, or says so: compare the runs");
}

/// The state that both sides agree on: the first candidate with this digest. nullopt is no error: the files
/// alone may suffice.
Result<std::optional<State>> agreed_state(const TaskFiles& files, exec::ExactExecutor& executor,
                                          const DiffOptions& options, const Party& ours, const Party& theirs,
                                          std::int64_t segment, int threads) {
  DGX_TRY(const Digest wanted, ours.boundary(segment, 0));
  const auto fits = [&](const State& state) {
    const auto step = step_of(state);
    if (!step.ok() || *step != files.segments.boundary(segment)) return false;
    const auto digests = bundle::digests_of(state, threads);
    return digests.ok() && digests->state == wanted;
  };
  if (options.from) {
    DGX_TRY(SegmentStart start, segment_start(files, executor, *options.from, segment, threads));
    if (fits(start.state)) return std::optional<State>(std::move(start.state));
    return malformed(
        fmt::format("{}: not the state that both sides say segment {} starts from", *options.from, segment));
  }
  if (segment == 0) {
    auto initial = initial_state(files, std::nullopt);
    if (initial.ok() && fits(*initial)) return std::optional<State>(std::move(*initial));
  }
  for (const Party* party : {&ours, &theirs}) {
    if (!party->run) continue;
    Replay replay(files, executor, party->drill);
    auto state = committed_state(*party->run, segment, replay, threads);
    if (state.ok() && fits(*state)) return std::optional<State>(std::move(*state));
  }
  return std::optional<State>();
}

}  // namespace

Result<DiffResult> diff(const DiffOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(const Party ours, Party::open(files, options.ours, context.threads));
  DGX_TRY(const Party theirs, Party::open(files, options.theirs, context.threads));
  DGX_TRY(const bundle::Dataset data, open_dataset(options.data, files.body()));
  DiffResult result;
  DGX_TRY(const auto segment, choose_segment(ours, theirs, result));
  if (!segment) return result;
  DGX_TRY(const Digest our_end, ours.boundary(*segment, 1));
  DGX_TRY(const Digest their_end, theirs.boundary(*segment, 1));
  DGX_TRY(const protocol::Segment part, common_part(files, ours, theirs, *segment));
  DGX_TRY(const auto executor, make_executor(files, data, context.threads));
  DGX_TRY(auto start, agreed_state(files, *executor, options, ours, theirs, *segment, context.threads));
  Claims claims(files, *executor, part, std::move(start), context);
  DGX_CHECK(Descent(files, ours, theirs, claims, result).from_segment(*segment, our_end, their_end));
  return result;
}

}  // namespace dgx::jobs
