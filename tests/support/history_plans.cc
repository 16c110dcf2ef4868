#include "history_plans.h"

#include <algorithm>
#include <utility>

#include "dgx/merkle/digests.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/player.h"
#include "dgx/protocol/verify.h"
#include "statements.h"

namespace dgx::test {
namespace {

using namespace manifest;

Fault draw_fault_in(Dice& dice, std::int64_t first, std::int64_t end) {
  Fault fault;
  fault.kind = Fault::Kind::kEntry;
  fault.step = first + dice.below(end - first);
  fault.value = 2;  // model/w
  fault.element = dice.below(12);
  fault.bit = static_cast<int>(dice.below(20));
  return fault;
}

CommittedState opened(const Plans& plans, std::int64_t index) {
  std::vector<Digest> leaves;
  for (const Digest& state : plans.digests) leaves.push_back(merkle::committed_state_leaf(state));
  const auto i = static_cast<std::size_t>(index);
  return {plans.digests[i], *merkle::inclusion_path(leaves, i)};
}

VerdictRow row_of(const Plans& plans, const protocol::Assignment& assignment, std::int64_t index, bool lie) {
  TinyParty& replay = lie ? *plans.slander : plans.replay_of(index);
  const protocol::Segment& segment = plans.stage.segments[static_cast<std::size_t>(index)];
  VerdictRow row;
  row.index = index;
  row.expected = plans.digests[static_cast<std::size_t>(index) + 1];
  row.recomputed = replay.state_record(segment.end).digest;
  row.agrees = row.expected == row.recomputed;
  row.reason = row.agrees ? RowReason::kEqual : RowReason::kDigest;
  const Digest interior = replay.state_record(protocol::witness_step(segment)).digest;
  row.witness = protocol::witness_of(assignment.verifier, interior);
  return row;
}

/// Misstates the witness that the verifier's secret forces to be false, if the rows accept.
void misstate(const protocol::TaskRecord& record, const protocol::Segments& all, std::uint8_t who,
              std::vector<VerdictRow>& rows) {
  const auto forced = protocol::forced_segment(record.task.body, all, record.round->source, secret_of(who));
  if (!std::all_of(rows.begin(), rows.end(), [](const VerdictRow& row) { return row.agrees; })) return;
  for (VerdictRow& row : rows) {
    if (row.index == forced) row.witness = protocol::false_witness(row.witness);
  }
}

}  // namespace

Plans::Plans(Stage& on, Dice& dice)
    : stage(on),
      honest_player(std::make_unique<protocol::Player>(stage.scene.program, *stage.honest)),
      digests(committed(stage, *stage.honest)) {
  for (const std::uint8_t who : {kSubmitter, kSolver, kVerifier}) honest[who] = dice.one_in(2);
  honest[kWatcher] = true;
  if (!honest[kSolver] && dice.one_in(2)) {
    const Fault fault = draw_fault_in(dice, 0, kSteps);
    cheat = std::make_unique<TinyParty>(stage.scene, std::vector<Fault>{fault}, stage.honest.get());
    cheat_player = std::make_unique<protocol::Player>(stage.scene.program, *cheat);
    const std::vector<Digest> right = std::exchange(digests, committed(stage, *cheat));
    const std::int64_t segment = fault.step / kEvery;
    const auto end = static_cast<std::size_t>(segment) + 1;
    if (digests[end] != right[end]) wrong_segment = segment;
  }
  slandered = dice.below(std::ssize(stage.segments));
  const protocol::Segment& segment = stage.segments[static_cast<std::size_t>(slandered)];
  slander = std::make_unique<TinyParty>(
      stage.scene, std::vector<Fault>{draw_fault_in(dice, segment.first, segment.end)}, stage.honest.get());
  slander_player = std::make_unique<protocol::Player>(stage.scene.program, *slander);
  withholds = stage.ledger.body.policy.beacon_source != 0 && dice.one_in(8);
}

Proof proof_of(const Plans& plans) {
  Proof out;
  out.task = plans.stage.scene.task.id;
  out.states = states_root(plans.digests);
  out.initial = plans.digests.front();
  out.final_state = plans.digests.back();
  out.steps = kSteps;
  return out;
}

Result<Verdict> verdict_of(const Plans& plans, const protocol::TaskRecord& record, std::uint8_t who, bool lie,
                           bool disobey) {
  const Task& task = record.task.body;
  protocol::Assignment assignment{record.task.id, record.proof->id, id_of(who), std::nullopt, {},
                                  Draw::kChosen};
  if (const auto source = protocol::source_of(record); source && !lie) {
    assignment.beacon = source->id;
    assignment.beacon_value = source->value;
    assignment.draw = Draw::kPolicy;
  }
  DGX_TRY(const auto all, protocol::segments_of(task, record.proof->body));
  std::vector<std::int64_t> drawn{plans.slandered};
  if (assignment.beacon) {
    DGX_TRY(drawn, protocol::policy_draw(task, all, assignment));
  }
  std::vector<VerdictRow> rows;
  for (const std::int64_t index : drawn) rows.push_back(row_of(plans, assignment, index, lie));
  if (assignment.beacon && record.round && !disobey) misstate(record, all, who, rows);
  return protocol::assemble_verdict(task, all, assignment, plans.digests, rows, digest("nonce"));
}

namespace {

/// The policy's draw for the proof of a market that draws verifiers, and an assignment of it.
struct Drawn {
  protocol::Segments all;
  protocol::Assignment assignment;
  std::vector<std::int64_t> segments;
};

Result<Drawn> drawn_for(const protocol::TaskRecord& record, std::uint8_t who) {
  const Task& task = record.task.body;
  const auto& source = record.round->source;
  const protocol::Assignment assignment{record.task.id, record.proof->id, id_of(who),
                                        source.id,      source.value,     Draw::kPolicy};
  DGX_TRY(const auto all, protocol::segments_of(task, record.proof->body));
  DGX_TRY(auto segments, protocol::policy_draw(task, all, assignment));
  return Drawn{all, assignment, std::move(segments)};
}

}  // namespace

Result<Verdict> lazy_verdict_of(const Plans& plans, const protocol::TaskRecord& record, std::uint8_t who) {
  DGX_TRY(const Drawn drawn, drawn_for(record, who));
  std::vector<VerdictRow> rows;
  for (const std::int64_t index : drawn.segments) {
    const Digest& end = plans.digests[static_cast<std::size_t>(index) + 1];
    rows.push_back({index, end, end, true, RowReason::kEqual, digest("a guess")});
  }
  return protocol::assemble_verdict(record.task.body, drawn.all, drawn.assignment, plans.digests, rows,
                                    digest("nonce"));
}

Result<Verdict> audit_of(const Plans& plans, const protocol::TaskRecord& record, std::uint8_t who) {
  DGX_TRY(Drawn drawn, drawn_for(record, who));
  const Signed<Verdict>& verdict = *record.verdict;
  drawn.assignment.draw = Draw::kAudit;
  drawn.assignment.audited = protocol::Audited{verdict.id, verdict.key_id};
  protocol::Assignment theirs = drawn.assignment;
  theirs.verifier = verdict.key_id;
  std::vector<VerdictRow> rows;
  std::vector<std::int64_t> denied;
  for (std::size_t place = 0; place < drawn.segments.size(); ++place) {
    const std::int64_t index = drawn.segments[place];
    rows.push_back(row_of(plans, drawn.assignment, index, false));
    const bool differs = row_of(plans, theirs, index, false).witness != verdict.body.witnesses[place];
    if (rows.back().agrees && differs) denied.push_back(index);
  }
  return protocol::assemble_verdict(record.task.body, drawn.all, drawn.assignment, plans.digests, rows,
                                    digest("nonce"), denied);
}

bool refutes_falsely(const Plans& plans, const Verdict& verdict) {
  if (!verdict.first_disagreement) return false;
  const VerdictRow& row = *verdict.first_disagreement;
  const protocol::Segment& segment = plans.stage.segments[static_cast<std::size_t>(row.index)];
  return row.recomputed != plans.replay_of(row.index).state_record(segment.end).digest;
}

Challenge challenge_of_witness(const Plans& plans, const protocol::TaskRecord& record, std::int64_t segment) {
  const auto drawn = *drawn_for(record, kVerifier);
  const auto place =
      std::find(drawn.segments.begin(), drawn.segments.end(), segment) - drawn.segments.begin();
  const Digest& end = plans.digests[static_cast<std::size_t>(segment) + 1];
  Challenge out = challenge_of(plans, record, segment);
  out.verdict = record.verdict->id;
  out.about = About::kWitness;
  out.row = OpenedRow{place,
                      {},
                      VerdictRow{segment, end, end, true, RowReason::kEqual,
                                 record.verdict->body.witnesses[static_cast<std::size_t>(place)]}};
  return out;
}

Challenge challenge_of(const Plans& plans, const protocol::TaskRecord& record, std::int64_t segment) {
  Challenge out;
  out.task = record.task.id;
  out.proof = record.proof->id;
  out.segment = segment;
  out.start = opened(plans, segment);
  out.end = opened(plans, segment + 1);
  return out;
}

Challenge challenge_of_verdict(const Plans& plans, const protocol::TaskRecord& record,
                               const Signed<Verdict>& verdict) {
  Challenge out = challenge_of(plans, record, verdict.body.first_disagreement->index);
  out.verdict = verdict.id;
  out.row = OpenedRow{0, {}, *verdict.body.first_disagreement};
  return out;
}

}  // namespace dgx::test
