#include "parties.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace dgx::jobs {
namespace {

Status check_trace(const TaskFiles& files, const bundle::Trace& trace, const std::string& path) {
  if (trace.task != files.task.id) return malformed(path + ": a trace of another task");
  if (trace.segment >= files.segments.count()) {
    return malformed(
        fmt::format("{}: of segment {}, the task has {}", path, trace.segment, files.segments.count()));
  }
  const protocol::Segment segment = files.segments[trace.segment];
  const std::int64_t steps = std::ssize(trace.states) - 1;  // fewer for a run that diverged
  if (trace.first_step != segment.first || steps < 1 || steps > segment.length()) {
    return malformed(fmt::format("{}: its steps are not those of segment {}, {} to {}", path, trace.segment,
                                 segment.first, segment.end - 1));
  }
  if (trace.values && trace.values->digests.size() != files.program->values.size()) {
    return malformed(fmt::format("{}: digests of {} values, the program has {}", path,
                                 trace.values->digests.size(), files.program->values.size()));
  }
  return {};
}

}  // namespace

Result<Party> Party::open(const TaskFiles& files, const std::string& path, int threads) {
  Party party{path, std::nullopt, std::nullopt, std::nullopt};
  if (std::filesystem::is_directory(path)) {
    DGX_TRY(bundle::RunReader run, open_run_of(files, path));
    DGX_TRY(party.drill, drill_of(run.index().header));
    party.run.emplace(std::move(run));
    return party;
  }
  DGX_TRY(bundle::Trace trace, bundle::read_trace(path, bundle::Check::kDigests, {threads}));
  DGX_CHECK(check_trace(files, trace, path));
  party.trace.emplace(std::move(trace));
  return party;
}

Result<Digest> Party::boundary(std::int64_t segment, int side) const {
  if (trace) return side == 0 ? trace->states.front() : trace->states.back();
  if (segment < run->index().segments())
    return run->index().checkpoints[static_cast<std::size_t>(segment + side)].digest;
  return malformed(fmt::format("{}: has no segment {}, which the other side's trace is of", path, segment));
}

protocol::Segment Party::part_of(const protocol::Segment& segment) const {
  protocol::Segment out = segment;
  if (trace) {
    out.end = trace->first_step + std::ssize(trace->states) - 1;
  } else if (run->index().diverged) {
    out.end = std::min(out.end, run->index().checkpoints.back().step);
  }
  return out;
}

std::vector<Digest> Party::committed() const {
  std::vector<Digest> digests;
  for (const bundle::Checkpoint& checkpoint : run->index().checkpoints) digests.push_back(checkpoint.digest);
  return digests;
}

Result<std::vector<Digest>> Claims::honest_states() {
  if (!honest_states_) {
    Replay replay(files_, executor_);
    DGX_TRY(honest_states_, state_digests_of(replay, *start_, segment_, context_.threads, context_.progress));
  }
  return *honest_states_;
}

Result<std::vector<Digest>> Claims::honest_values(std::int64_t step) {
  if (!honest_values_ || honest_values_->first != step) {
    Replay replay(files_, executor_);
    DGX_TRY(auto digests, value_digests_of(replay, *start_, step, {}));
    honest_values_ = {step, std::move(digests)};
  }
  return honest_values_->second;
}

Result<std::vector<Tensor>> Claims::honest_numbers(std::int64_t step,
                                                   const std::vector<std::int32_t>& values) {
  std::vector<Tensor> numbers(files_.program->values.size());
  Replay replay(files_, executor_);
  DGX_TRY([[maybe_unused]] const auto digests,
          value_digests_of(replay, *start_, step, [&](std::int32_t value, const TensorView& view) -> Status {
            const bool wanted = std::find(values.begin(), values.end(), value) != values.end();
            if (wanted) numbers[static_cast<std::size_t>(value)] = Tensor(view);
            return {};
          }));
  return numbers;
}

Result<std::optional<std::vector<Digest>>> Claims::states(const Party& party) {
  using Found = std::optional<std::vector<Digest>>;
  if (party.trace) return Found(party.trace->states);
  if (!can_replay()) return Found();
  DGX_TRY(const Digest end, party.boundary(segment_.index, 1));
  DGX_TRY(std::vector<Digest> honest, honest_states());
  if (honest.back() == end) return Found(std::move(honest));
  if (!party.drill) return Found();
  Replay defence(files_, executor_, party.drill);
  DGX_TRY(std::vector<Digest> claimed,
          state_digests_of(defence, *start_, segment_, context_.threads, context_.progress));
  return claimed.back() == end ? Found(std::move(claimed)) : Found();
}

Result<bool> Claims::agrees_with_replay(const Party& party, std::int64_t step) {
  const auto after = static_cast<std::size_t>(step - segment_.first) + 1;
  DGX_TRY(const auto claimed, states(party));
  DGX_TRY(const auto honest, honest_states());
  return claimed && std::equal(claimed->begin(), claimed->begin() + static_cast<std::ptrdiff_t>(after) + 1,
                               honest.begin());
}

Result<std::optional<std::vector<Digest>>> Claims::values(const Party& party, std::int64_t step) {
  using Found = std::optional<std::vector<Digest>>;
  if (party.trace && party.trace->values && party.trace->values->step == step)
    return Found(party.trace->values->digests);
  if (!can_replay()) return Found();
  DGX_TRY(const bool honest, agrees_with_replay(party, step));
  if (honest) {
    DGX_TRY(auto digests, honest_values(step));
    return Found(std::move(digests));
  }
  if (!party.drill) return Found();
  Replay defence(files_, executor_, party.drill);
  DGX_TRY(auto digests, value_digests_of(defence, *start_, step, {}));
  return Found(std::move(digests));
}

Result<std::optional<Tensor>> Claims::numbers(const Party& party, std::int64_t step, std::int32_t value) {
  using Found = std::optional<Tensor>;
  const auto& trace = party.trace;
  if (trace && trace->numbers && trace->values->step == step && trace->numbers->value == value) {
    return Found(trace->numbers->tensor);
  }
  if (!can_replay()) return Found();
  DGX_TRY(const auto claimed, values(party, step));
  DGX_TRY(const auto honest, honest_values(step));
  const auto at = static_cast<std::size_t>(value);
  if (claimed && (*claimed)[at] == honest[at]) {
    DGX_TRY(auto numbers, honest_numbers(step, {value}));
    return Found(std::move(numbers[at]));
  }
  if (!party.drill) return Found();
  Found found;
  Replay defence(files_, executor_, party.drill);
  DGX_TRY([[maybe_unused]] const auto digests,
          value_digests_of(defence, *start_, step, [&](std::int32_t v, const TensorView& view) -> Status {
            if (v == value) found.emplace(view);
            return {};
          }));
  return found;
}

}  // namespace dgx::jobs
