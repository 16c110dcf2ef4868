#include "game.h"

#include <cstdlib>

#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/message.h"

namespace dgx::test {

using namespace manifest;
using namespace protocol;

State tiny_state(std::int64_t step, std::uint64_t value) {
  Tensor number(DType::kI64, {});
  number.as<std::int64_t>()[0] = static_cast<std::int64_t>(value);
  Tensor counter(DType::kI64, {});
  counter.as<std::int64_t>()[0] = step;
  State out;
  out.push_back({"loss", Tensor(DType::kF32, {})});
  out.push_back({"model/x", std::move(number)});
  out.push_back({"step", std::move(counter)});
  return out;
}

namespace {

/// Does not use Catch, since fuzz targets have runs, too.
void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

Digest state_digest(const State& state) {
  const auto digests = merkle::state_digests(state);
  must(digests.ok());
  return digests->state;
}

Status TinyExecutor::load(const State& state) {
  if (lie_ == Lie::kRefuseLoad || find_entry(state, "model/x") == nullptr)
    return malformed("state: other entries");
  position_ = *step_of(state);
  value_ = static_cast<std::uint64_t>(find_entry(state, "model/x")->tensor.as<std::int64_t>()[0]);
  return {};
}

Status TinyExecutor::step() {
  if (lie_ == Lie::kNonFinite && position_ == at_) return malformed("state: model/x: not finite");
  value_ = value_ * 6364136223846793005u + static_cast<std::uint64_t>(position_);
  if (lie_ == Lie::kWrongStep && position_ == at_) value_ ^= 1;
  ++position_;
  return {};
}

Result<State> TinyExecutor::state() const { return tiny_state(position_, value_); }

std::string tiny_line() { return R"({"k":"input","next":0,"s":[],"src":"state model/x","t":"i64","v":0})"; }

TinyRun tiny_run(const std::string& name, TinyExecutor executor, const std::function<void(Task&)>& change) {
  const State start = tiny_state(0, 42);
  Task body = task();
  body.model = name;
  body.program = {merkle::leaf_hash(as_bytes(tiny_line())), 1};
  body.initial.digest = state_digest(start);
  if (change) change(body);
  TinyRun run{*seal(body, key(kSubmitter)), {start}, {state_digest(start)}, {}, {}};
  must(executor.load(start).ok());
  const auto segments = *Segments::of(body.steps, body.checkpoint_every);
  for (std::int64_t i = 0; i < segments.count(); ++i) {
    for (std::int64_t s = segments[i].first; s < segments[i].end; ++s) must(executor.step().ok());
    run.states.push_back(executor.state().value());
    run.digests.push_back(state_digest(run.states.back()));
  }
  const Proof proof{run.task.id, states_root(run.digests),  run.digests.front(), run.digests.back(),
                    body.steps,  loss_in(run.states.back())};
  run.proof = *seal(proof, key(kSolver));
  const Digest secret = digest("secret of " + name);
  const Beacon beacon{run.task.id, offer(run).id, run.proof.id, secret, beacon_value(secret, run.proof.id)};
  run.beacon = *seal(beacon, key(kVerifier));
  return run;
}

Signed<BeaconCommitment> offer(const TinyRun& run) {
  const Task& body = run.task.body;
  const Digest secret = digest("secret of " + body.model);
  return *seal(
      BeaconCommitment{run.task.id, beacon_commitment(secret), body.dataset.digest, body.initial.digest, 1},
      key(kVerifier));
}

Signed<Assign> assignment(const TinyRun& run) {
  const Task& body = run.task.body;
  return *seal(Assign{run.task.id, offer(run).id, body.dataset.digest, body.initial.digest, 1}, key(kSolver));
}

Signed<Opening> opening(const TinyRun& run, bool without_beacon) {
  return *seal(Opening{run.task.id, run.proof.id, without_beacon ? run.proof.id : run.beacon.id, "opening"},
               key(kSolver));
}

Signed<Delivery> delivery(const TinyRun& run) {
  return *seal(Delivery{run.task.id, run.proof.id, run.proof.body.final_state, std::nullopt},
               key(kSubmitter));
}

Signed<Verdict> verdict(const TinyRun& run, std::span<const std::int64_t> chosen) {
  const auto who =
      assign(run.task, run.proof, chosen.empty() ? std::optional<DrawSource>(run.beacon) : std::nullopt,
             key_id(kVerifier));
  must(who.ok());
  std::vector<std::int64_t> segments(chosen.begin(), chosen.end());
  const Segments all = run.segments();
  if (chosen.empty()) segments = *policy_draw(run.task.body, all, *who);
  std::vector<VerdictRow> rows;
  TinyExecutor executor;
  for (const std::int64_t index : segments) {
    const auto i = static_cast<std::size_t>(index);
    rows.push_back(
        *replay_segment(executor, run.states[i], all[index], run.digests[i], run.digests[i + 1], *who));
  }
  const auto body = assemble_verdict(run.task.body, all, *who, run.digests, rows, digest("nonce"));
  must(body.ok());
  return *seal(*body, key(kVerifier));
}

Verdict replayed(const TinyRun& run, const DrawSource& round, std::uint8_t who,
                 const Signed<Verdict>* audited) {
  Assignment assignment = *assign(run.task, run.proof, round, key_id(who));
  const Segments all = run.segments();
  const auto drawn = *policy_draw(run.task.body, all, assignment);
  if (audited != nullptr) {
    assignment.draw = Draw::kAudit;
    assignment.audited = Audited{audited->id, audited->key_id};
  }
  std::vector<VerdictRow> rows;
  std::vector<std::int64_t> denied;
  TinyExecutor executor;
  for (std::size_t place = 0; place < drawn.size(); ++place) {
    const auto i = static_cast<std::size_t>(drawn[place]);
    Digest theirs;
    rows.push_back(*replay_segment(executor, run.states[i], all[drawn[place]], run.digests[i],
                                   run.digests[i + 1], assignment, {}, &theirs));
    const bool differs = audited != nullptr && theirs != audited->body.witnesses[place];
    if (differs && rows.back().agrees) denied.push_back(drawn[place]);
  }
  const auto out =
      assemble_verdict(run.task.body, all, assignment, run.digests, rows, digest("nonce"), denied);
  must(out.ok());
  return *out;
}

namespace {

CommittedState opened(const TinyRun& run, std::int64_t index) {
  std::vector<Digest> leaves;
  for (const Digest& state : run.digests) leaves.push_back(merkle::committed_state_leaf(state));
  return {run.digests[static_cast<std::size_t>(index)],
          *merkle::inclusion_path(leaves, static_cast<std::uint64_t>(index))};
}

}  // namespace

Challenge challenge_of(const TinyRun& run, std::int64_t segment) {
  Challenge out;
  out.task = run.task.id;
  out.proof = run.proof.id;
  out.segment = segment;
  out.start = opened(run, segment);
  out.end = opened(run, segment + 1);
  return out;
}

Challenge challenge_of(const TinyRun& run, const Signed<Verdict>& verdict) {
  const VerdictRow& row = *verdict.body.first_disagreement;
  Challenge out = challenge_of(run, row.index);
  out.verdict = verdict.id;
  out.row = OpenedRow{0, {}, row};
  return out;
}

Challenge chunk_challenge(const TinyRun& run, std::int64_t state) {
  Challenge out;
  out.task = run.task.id;
  out.proof = run.proof.id;
  out.about = About::kChunk;
  out.segment = state;
  out.start = opened(run, state);
  out.chunk = ChunkReference{{0, {}, tiny_line()}, 0};
  return out;
}

Signed<Move> chunk_move(const TinyRun& run, const Signed<Challenge>& challenge, std::uint8_t who) {
  const State& state = run.states[static_cast<std::size_t>(challenge.body.segment)];
  const auto digests = merkle::state_digests(state);
  std::vector<merkle::NamedDigest> entries;
  for (std::size_t i = 0; i < state.size(); ++i) entries.push_back({state[i].name, digests->tensors[i]});
  const ChunkPost post{*merkle::open_entry(entries, "model/x"),
                       "https://example.org/x",
                       {},
                       merkle::tensor_part_root(find_entry(state, "model/x")->tensor.bytes(), 0)};
  return *seal(Move{run.task.id, challenge.id, 1, challenge.id, print_message(post)}, key(who));
}

Signed<Move> states_move(const Signed<Challenge>& challenge, std::uint8_t who) {
  const auto steps = task().checkpoint_every;
  StatesPost states;
  for (std::int64_t i = 1; i < steps; ++i) states.digests.push_back(digest("state " + std::to_string(i)));
  return *seal(Move{challenge.body.task, challenge.id, 1, challenge.id, print_message(states)}, key(who));
}

Signed<Move> empty_move(const Signed<Challenge>& challenge, std::int64_t turn, const Digest& previous,
                        std::uint8_t who) {
  return *seal(Move{challenge.body.task, challenge.id, turn, previous, {}}, key(who));
}

}  // namespace dgx::test
