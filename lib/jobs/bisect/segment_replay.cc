#include "bisect/segment_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "dgx/crypto/sha256.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"

namespace dgx::jobs {

using merkle::NamedDigest;

void ReplaySource::start_from(std::string path, std::int64_t segment,
                              const std::optional<Digest>& committed) {
  from_ = std::move(path);
  segment_ = segment;
  committed_ = committed;
}

Result<const bundle::OpenedDataset*> ReplaySource::data() {
  if (!data_) {
    DGX_TRY(auto opened, open_task_dataset(data_path_, files_.body(), context_));
    data_.emplace(std::move(opened));
  }
  return &*data_;
}

Result<exec::StepExecutor*> ReplaySource::executor() {
  if (!executor_) {
    DGX_TRY(const bundle::OpenedDataset* const data, this->data());
    DGX_TRY(executor_, make_executor_on(ComputeDevice::kCpu, parts_, files_, data->rows(), context_));
  }
  return executor_.get();
}

Result<State> ReplaySource::read_start(const std::string& path, std::int64_t segment) {
  DGX_TRY(exec::StepExecutor* const executor, this->executor());
  DGX_TRY(auto opened, StartStates::open(path, files_.task.id, files_.segments, context_.threads));
  DGX_CHECK(opened.check_shared(*files_.program));
  starts_.emplace(std::move(opened));
  std::optional<Drill> drill;
  if (run() != nullptr) {
    // The attribute is unsigned and may say anything.
    const auto noted = drill_of(run()->header);
    if (noted.ok()) drill = *noted;
  }
  user_ = nullptr;
  DrilledExecutor replay(files_, *executor, std::move(drill));
  const StopFlag never;
  return starts_->start(segment, &replay, never);
}

Result<const State*> ReplaySource::start() {
  if (start_) return &*start_;
  DGX_TRY(State found, read_start(from_, segment_));
  if (committed_) {
    DGX_TRY(const auto digests, merkle::state_digests(found, context_.threads));
    if (digests.state != *committed_)
      return malformed(fmt::format("{}: segment {} starts from state {} here, the proof commits to {}", from_,
                                   segment_, digests.state.brief(), committed_->brief()));
  } else {
    DGX_TRY(const std::int64_t step, step_of(found));
    const std::int64_t first = files_.segments[segment_].first;
    if (step != first)
      return malformed(fmt::format("{}: holds the state at step {}, segment {} starts at step {}", from_,
                                   step, segment_, first));
  }
  start_.emplace(std::move(found));
  return &*start_;
}

SegmentReplay::SegmentReplay(const protocol::Segment& segment, ReplaySource& source,
                             std::optional<Drill> drill, const DisputeNotes* notes)
    : files_(source.files()), segment_(segment), source_(source), drill_(std::move(drill)), notes_(notes) {
  const std::int64_t bytes = std::max<std::int64_t>(files_.body().caps.bytes, 1);
  interval_ = 1 + (segment_.length() - 1) / std::max<std::int64_t>(kKeptBytes / bytes, 1);
  if (notes_ == nullptr) return;
  auto noted = notes_->segment();
  // Takes notes only if complete: up to the end, or to where the state is not finite.
  const auto wanted = [&](const SegmentNotes& all) {
    const std::int64_t last = all.broken ? *all.broken + 1 : segment_.end;
    return last >= segment_.first && last <= segment_.end &&
           std::ssize(all.states) == last - segment_.first + 1;
  };
  if (!noted || !wanted(*noted)) return;
  states_ = std::move(noted);
  if (states_->broken)
    not_finite_ = malformed(fmt::format("step {} gives a state that is not finite", *states_->broken));
}

Result<DrilledExecutor*> SegmentReplay::replay() {
  if (!replay_) {
    DGX_TRY(exec::StepExecutor* const executor, source_.executor());
    replay_.emplace(files_, *executor, drill_);
  }
  if (!source_.is_still_of(this)) position_.reset();
  return &*replay_;
}

Status SegmentReplay::check_step(std::int64_t step, std::int64_t last) const {
  if (step >= segment_.first && step <= last) return {};
  return internal_error(fmt::format("step {}: the replay has steps {} to {}", step, segment_.first, last));
}

/// Notes the digest of the state that the replay has reached and, at intervals, keeps the state.
Status SegmentReplay::note_state(SegmentNotes& found) {
  DGX_TRY(const merkle::StateDigests digests, replay_->digests(source_.context().threads));
  found.states.push_back(digests.state);
  const std::int64_t done = *position_ - segment_.first;
  source_.context().progress.update(done);
  // A lazy solver's states follow from the segment's start state alone.
  const bool lazy = drill_ && drill_->lazy();
  if (lazy || done == 0 || done == segment_.length() || done % interval_ != 0) return {};
  DGX_TRY(kept_states_[*position_], replay_->state());
  return {};
}

Status SegmentReplay::replay_segment() {
  if (states_) return {};
  SegmentNotes found;
  source_.context().progress.start("replaying", segment_.length());
  DGX_CHECK(go_to(segment_.first));
  DGX_CHECK(note_state(found));
  const Status taken = replay_->advance(segment_.length(), [&]() -> Status {
    ++replayed_;
    ++*position_;
    return note_state(found);
  });
  if (!taken.ok()) {
    position_.reset();
    if (taken.error().code != ErrorCode::kMalformed) return taken;
    ++replayed_;
    found.broken = segment_.first + std::ssize(found.states) - 1;
    not_finite_ = taken.error();
  }
  source_.context().progress.finish();
  states_ = std::move(found);
  states_are_new_ = true;
  if (!states_->broken) return {};
  // The state that is not finite has a digest, too: that of the values which would become its entries.
  const std::int64_t last = *states_->broken;
  DGX_TRY(const StepNotes* const notes, step_notes(last));
  DGX_TRY(const Digest digest, merkle::state_digest(notes->after));
  states_->states.push_back(digest);
  return {};
}

Result<const State*> SegmentReplay::nearest_state(std::int64_t step, std::int64_t& found) {
  auto kept = kept_states_.upper_bound(step);
  found = kept == kept_states_.begin() ? segment_.first : std::prev(kept)->first;
  if (notes_ != nullptr && states_) {
    const auto noted = notes_->states();
    for (auto at = noted.rbegin(); at != noted.rend(); ++at) {
      if (*at > step || *at <= found || *at - segment_.first >= std::ssize(states_->states)) continue;
      auto state = notes_->state(*files_.program, *at,
                                 states_->states[static_cast<std::size_t>(*at - segment_.first)]);
      if (!state) continue;
      found = *at;
      return &(kept_states_[found] = *std::move(state));
    }
  }
  if (found == segment_.first) return source_.start();
  return &kept_states_.at(found);
}

Status SegmentReplay::go_to(std::int64_t step) {
  DGX_TRY(DrilledExecutor* const replay, this->replay());
  if (position_ == step) return {};
  std::int64_t from = 0;
  DGX_TRY(const State* const state, nearest_state(step, from));
  if (!position_ || *position_ > step || *position_ < from) {
    position_.reset();
    DGX_CHECK(replay->load(*state));
    position_ = from;
  }
  return replay->advance(step - *position_, [this]() -> Status {
    ++replayed_;
    ++*position_;
    return {};
  });
}

Result<std::vector<NamedDigest>> SegmentReplay::entries_now() const {
  DGX_TRY(const merkle::StateDigests digests, replay_->digests(source_.context().threads));
  std::vector<NamedDigest> out;
  for (const kernels::ValueIndex input : program::state_inputs(*files_.program)) {
    const kernels::Primitive& line = files_.program->values[input];
    out.push_back({line.source.name, digests.tensors[out.size()]});
  }
  return out;
}

std::vector<NamedDigest> SegmentReplay::entries_from(std::span<const Digest> values) const {
  std::vector<NamedDigest> out;
  for (const kernels::ValueIndex input : program::state_inputs(*files_.program)) {
    const kernels::Primitive& line = files_.program->values[input];
    out.push_back({line.source.name, values[static_cast<std::size_t>(line.next.value_or(input))]});
  }
  return out;
}

Status SegmentReplay::trace(std::int64_t step, const std::set<kernels::ValueIndex>& kept) {
  DGX_CHECK(go_to(step));
  const bool known = steps_.contains(step);
  StepNotes notes;
  if (!known) {
    DGX_TRY(notes.before, entries_now());
  }
  ++replayed_;
  position_.reset();
  std::size_t seen = 0;
  const Status traced = replay_->trace([&](kernels::ValueIndex value, const TensorView& numbers) -> Status {
    ++seen;
    if (!known) notes.values.push_back(merkle::tensor_digest(numbers));
    if (kept.contains(value)) values_.insert_or_assign({step, value}, Tensor(numbers));
    return {};
  });
  // A step that gives a state which is not finite fails, but after its last value.
  if (seen != files_.program->values.size())
    return traced.ok() ? internal_error("a trace that ends early") : traced;
  if (known) return {};
  if (traced.ok()) {
    position_ = step + 1;
    DGX_TRY(notes.after, entries_now());
  } else {
    notes.after = entries_from(notes.values);
  }
  steps_.emplace(step, std::move(notes));
  new_steps_.insert(step);
  return {};
}

Result<const StepNotes*> SegmentReplay::step_notes(std::int64_t step) {
  auto found = steps_.find(step);
  if (found == steps_.end()) {
    auto noted = notes_ != nullptr ? notes_->step(step) : std::nullopt;
    if (noted && noted->values.size() == files_.program->values.size()) {
      steps_.emplace(step, *std::move(noted));
    } else {
      DGX_CHECK(trace(step, {}));
    }
    found = steps_.find(step);
  }
  return &found->second;
}

Result<std::vector<Digest>> SegmentReplay::states() {
  DGX_CHECK(replay_segment());
  if (states_->broken) return not_finite_;
  return states_->states;
}

Result<std::optional<std::int64_t>> SegmentReplay::non_finite_after() {
  DGX_CHECK(replay_segment());
  return states_->broken;
}

Result<Digest> SegmentReplay::state(std::int64_t step) {
  DGX_CHECK(replay_segment());
  DGX_CHECK(check_step(step, segment_.first + std::ssize(states_->states) - 1));
  return states_->states[static_cast<std::size_t>(step - segment_.first)];
}

Result<std::vector<NamedDigest>> SegmentReplay::entries(std::int64_t step) {
  DGX_CHECK(check_step(step, segment_.end));
  if (step == segment_.first) {
    DGX_TRY(const State* const start, source_.start());
    std::vector<NamedDigest> out;
    for (const Entry& entry : *start) out.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
    return out;
  }
  if (const auto before = steps_.find(step); before != steps_.end()) return before->second.before;
  if (step == segment_.end || steps_.contains(step - 1)) {
    DGX_TRY(const StepNotes* const notes, step_notes(step - 1));
    return notes->after;
  }
  DGX_TRY(const StepNotes* const notes, step_notes(step));
  return notes->before;
}

Result<std::vector<Digest>> SegmentReplay::values(std::int64_t step) {
  DGX_CHECK(check_step(step, segment_.end - 1));
  DGX_TRY(const StepNotes* const notes, step_notes(step));
  return notes->values;
}

Result<Tensor> SegmentReplay::value(std::int64_t step, kernels::ValueIndex value) {
  DGX_CHECK(check_step(step, segment_.end - 1));
  const auto found = values_.find({step, value});
  if (found != values_.end()) return found->second;
  if (notes_ != nullptr) {
    DGX_TRY(const StepNotes* const notes, step_notes(step));
    auto noted = notes_->value(*files_.program, step, value, notes->values[static_cast<std::size_t>(value)]);
    if (noted) return *std::move(noted);
  }
  std::set<kernels::ValueIndex> kept{value};
  for (const kernels::Access& access : files_.program->values[value].accesses) kept.insert(access.value);
  DGX_CHECK(trace(step, kept));
  const auto traced = values_.find({step, value});
  if (traced == values_.end())
    return internal_error(fmt::format("step {}: the trace does not reach value {}", step, value));
  return traced->second;
}

Result<protocol::DataOpening> SegmentReplay::data(std::string_view field, std::int64_t element) {
  DGX_TRY(const bundle::OpenedDataset* const data, source_.data());
  protocol::DataOpening out;
  DGX_TRY(out.entry, merkle::open_entry(data->tensors(), field));
  out.scales = crypto::sha256(as_bytes(data->recipe()));
  const merkle::ElementPlace place =
      merkle::place_of(data->info().find(field)->dtype, static_cast<std::uint64_t>(element));
  DGX_TRY(out.tensor, data->open_leaf(field, place.leaf));
  return out;
}

Result<Tensor> SegmentReplay::entry(std::int64_t step, std::string_view name) {
  DGX_CHECK(check_step(step, segment_.end));
  if (step == segment_.first) {
    // The committed start, which may not be a state of the program.
    DGX_TRY(const State* const start, source_.start());
    const Entry* const found = find_entry(*start, name);
    if (found == nullptr) return malformed(fmt::format("the start state has no entry {}", name));
    return found->tensor;
  }
  const auto input = program::find_state_input(*files_.program, name);
  if (!input) return malformed(fmt::format("the program has no entry {}", name));
  DGX_CHECK(replay_segment());
  if (states_->broken && step == *states_->broken + 1) {
    return value(step - 1, files_.program->values[*input].next.value_or(*input));
  }
  DGX_CHECK(go_to(step));
  DGX_TRY(const State state, replay_->state());
  return find_entry(state, name)->tensor;
}

Result<manifest::OpenedRow> SegmentReplay::row(std::int64_t segment) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const auto& row) { return row.index == segment; });
  if (found == rows_.end()) return protocol::Party::row(segment);
  return open_row(rows_, static_cast<std::size_t>(found - rows_.begin()));
}

Result<manifest::OpenedRow> open_row(std::span<const manifest::VerdictRow> rows, std::size_t index) {
  std::vector<Digest> leaves;
  for (const manifest::VerdictRow& row : rows)
    leaves.push_back(merkle::leaf_hash(as_bytes(row.to_json().dump())));
  DGX_TRY(auto path, merkle::inclusion_path(leaves, index));
  return manifest::OpenedRow{static_cast<std::int64_t>(index), std::move(path), rows[index]};
}

Status SegmentReplay::keep(const DisputeNotes& notes) const {
  if (states_are_new_) DGX_CHECK(notes.keep(*states_));
  const auto there = notes.states();
  for (const auto& [step, state] : kept_states_) {
    if (!std::binary_search(there.begin(), there.end(), step)) DGX_CHECK(notes.keep(step, state));
  }
  for (const std::int64_t step : new_steps_) DGX_CHECK(notes.keep(step, steps_.at(step)));
  for (const auto& [place, tensor] : values_) DGX_CHECK(notes.keep(place.first, place.second, tensor));
  return {};
}

}  // namespace dgx::jobs
