// dgx-threats(7), row 18: verifiers who echo, invent or hide, and those who are right.

#include <limits>

#include "dgx/merkle/openings.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/segments.h"
#include "ruled_games.h"

using namespace dgx;
using namespace dgx::test;
using manifest::About;
using manifest::RowReason;
using manifest::Ruling;
using manifest::RulingReason;
using protocol::Side;
using Kind = Fault::Kind;

namespace {

State state_of(const StateRecord& record) {
  State out;
  for (std::size_t i = 0; i < record.names.size(); ++i) out.push_back({record.names[i], *record.tensors[i]});
  return out;
}

/// A party that holds a given state and cannot replay from it.
class StartParty : public protocol::Party {
 public:
  explicit StartParty(const State& state) : state_(state) {}
  Result<std::optional<std::int64_t>> non_finite_after() override { return std::optional<std::int64_t>(); }
  Result<Digest> state(std::int64_t) override { return merkle::state_digests(state_)->state; }
  Result<std::vector<merkle::NamedDigest>> entries(std::int64_t) override {
    std::vector<merkle::NamedDigest> out;
    for (const Entry& entry : state_) out.push_back({entry.name, merkle::tensor_digest(entry.tensor.view())});
    return out;
  }
  Result<std::vector<Digest>> values(std::int64_t) override { return usage_error("no replay"); }
  Result<Tensor> value(std::int64_t, kernels::ValueIndex) override { return usage_error("no replay"); }
  Result<protocol::DataOpening> data(std::string_view, std::int64_t) override {
    return usage_error("no replay");
  }
  Result<Tensor> entry(std::int64_t, std::string_view name) override {
    return find_entry(state_, name)->tensor;
  }

 private:
  const State& state_;
};

}  // namespace

TEST_CASE("a verifier who says that a state is not finite, and is right, is not convicted by that state") {
  TinyParty truth(growing());
  truth.look(0, 6);
  TinyParty solver(growing());
  solver.ignores_non_finite = true;
  auto dispute = about_verdict(solver, solver);
  manifest::VerdictRow row = dispute.challenge.body.row->row;
  row.agrees = false;
  row.reason = RowReason::kNonFinite;
  row.recomputed = Digest{};
  row.witness = Digest{};
  dispute = with_row(dispute, row);
  protocol::Player defends(growing().program, truth);
  auto game = game_after(dispute, {});
  for (int turn = 0; !game.decision(); ++turn) {
    REQUIRE(turn < 20);
    const bool shows = game.due().side == Side::kDefender;
    if (shows) {
      REQUIRE(game.apply(instead(game, next_message(defends, game))).ok());
    } else if (const auto* stage = game.stage<protocol::ChooseState>()) {
      REQUIRE(game.apply(instead(game, protocol::Name{std::ssize(stage->states), std::nullopt})).ok());
    } else {
      const std::int64_t after = game.state().first_step + 1;
      protocol::NonFiniteClaim claim;
      claim.entry = *merkle::open_entry(*truth.entries(after), "model/w");
      claim.tensor = *merkle::open_tensor((*truth.entry(after, "model/w")).view(), 0);
      REQUIRE(game.apply(instead(game, claim)).ok());
    }
  }
  INFO(game.decision()->words);
  CHECK(game.decision()->claim == manifest::Claim::kNonFinite);
  CHECK_FALSE(game.decision()->falls);
}

TEST_CASE("a verdict with an invented digest falls, whatever digest it is") {
  TinyParty honest(small());
  for (const std::string_view what : {"nothing", "the start state", "another state"}) {
    auto dispute = about_verdict(honest, honest);
    manifest::VerdictRow row = dispute.challenge.body.row->row;
    row.agrees = false;
    row.reason = RowReason::kDigest;
    row.recomputed = what == "nothing"           ? digest("nothing")
                     : what == "the start state" ? dispute.challenge.body.start.digest
                                                 : honest.state_record(1).digest;
    dispute = with_row(dispute, row);
    // The liar shows the best possible story: the truth.
    const Ruling ruling = ruled(small(), dispute, honest, honest);
    INFO(ruling.words);
    CHECK(ruling.falls);
    CHECK(ruling.defender == key_id(kJudge));
    CHECK(ruling.reason == RulingReason::kPost);
  }
}

TEST_CASE("an idle verifier's witness is convicted: echoed from the proof, copied, or invented") {
  TinyParty honest(small());
  const auto truth = about_verdict(honest, honest, About::kWitness);
  const auto& right = truth.challenge.body.row->row;
  std::vector<Digest> witnesses = {
      protocol::witness_of(key_id(kJudge), truth.challenge.body.start.digest),  // the state before
      protocol::witness_of(key_id(kJudge), truth.challenge.body.end->digest),   // the committed end
      protocol::witness_of(key_id(kStranger), honest.state_record(1).digest),   // another verifier's
      protocol::witness_of(key_id(kJudge), digest("something")), Digest{}};
  for (const Digest& witness : witnesses) {
    manifest::VerdictRow row = right;
    row.witness = witness;
    const auto dispute = with_row(truth, row);
    // Every state that the liar could show for the witness, then an honest replay of the segment.
    for (const Digest& shown : {truth.challenge.body.start.digest, truth.challenge.body.end->digest,
                                honest.state_record(1).digest, digest("something")}) {
      Moves moves;
      moves.push_back(instead(game_after(dispute, moves), protocol::InteriorPost{shown}));
      auto game = game_after(dispute, moves);
      protocol::Player defends(small().program, honest), objects(small().program, honest);
      while (!game.decision()) {
        const bool shows = game.due().side == Side::kDefender;
        moves.push_back(instead(game, next_message(shows ? defends : objects, game)));
        REQUIRE(game.apply(moves.back()).ok());
      }
      const auto ruling = ruled(transcript_of(dispute, moves));
      REQUIRE(ruling.ok());
      INFO(ruling->words);
      CHECK(ruling->falls);
    }
  }
  // And a verifier who did replay cannot be convicted.
  TinyParty wrong(small(), {fault(Kind::kValue, 0, 17, 0, 3)}, &honest);
  const Played played = play(small(), truth, honest, wrong, true);
  REQUIRE(played.game.decision());
  CHECK_FALSE(played.game.decision()->falls);
}

TEST_CASE("an invented fault of the start state falls, a true one stands") {
  TinyParty honest(small());
  for (const RowReason reason : {RowReason::kStep, RowReason::kState, RowReason::kNonFinite}) {
    auto dispute = about_verdict(honest, honest);
    manifest::VerdictRow row = dispute.challenge.body.row->row;
    row.agrees = false;
    row.reason = reason;
    row.recomputed = Digest{};
    row.witness = Digest{};
    dispute = with_row(dispute, row);
    const auto game = game_after(dispute, {});
    const auto entries = *honest.entries(0);
    std::vector<protocol::FaultPost> lies(6);
    lies[0].entry = *merkle::open_entry(entries, "step");
    lies[0].tensor = *merkle::open_tensor((*honest.entry(0, "step")).view(), 0);
    lies[1].entry = *merkle::open_entry(entries, "model/w");
    lies[2].before = *merkle::open_entry(entries, "model/b");
    lies[2].after = *merkle::open_entry(entries, "model/w");
    lies[3].before = lies[2].after;
    lies[3].after = lies[2].before;
    lies[4].step = 1;
    lies[4].digest = digest("a state");
    lies[4].entry = lies[1].entry;
    lies[4].tensor = *merkle::open_tensor((*honest.entry(0, "model/w")).view(), 0);
    for (const auto& lie : lies) {
      Moves moves{instead(game, lie)};
      auto after = game_after(dispute, moves);
      if (!after.decision()) {  // the entry was said to be foreign: show its line
        protocol::Player objects(small().program, honest);
        moves.push_back(instead(after, next_message(objects, after)));
      }
      const auto ruling = ruled(transcript_of(dispute, moves));
      REQUIRE(ruling.ok());
      INFO(ruling->words);
      CHECK(ruling->falls);
    }
  }
}

TEST_CASE("a verifier can show whatever is wrong with a committed start state") {
  // The verifier was given this state, so its digest is that of these entries; the solver disputes the row
  // nonetheless.
  TinyParty honest(small());
  const State right = state_of(honest.state_record(0));
  std::vector<State> wrong(9, right);
  wrong[0].clear();
  wrong[1].erase(wrong[1].begin());
  wrong[2].pop_back();
  wrong[3].push_back({"z", Tensor(DType::kF32, {1})});
  wrong[4].insert(wrong[4].begin(), {std::string(300, 'a'), Tensor(DType::kF32, {1})});
  wrong[5][1].tensor = Tensor(DType::kF32, {0});
  wrong[6][3].tensor = Tensor(DType::kF32, {12});
  wrong[7][3].tensor.as<float>()[5] = std::numeric_limits<float>::infinity();
  wrong[8][4].tensor.as<std::int64_t>()[0] = 7;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    StartParty shows(wrong[i]);
    auto dispute = about_verdict(honest, honest);
    manifest::Proof proof = dispute.proof.body;
    const Digest start = merkle::state_digests(wrong[i])->state;
    std::vector<Digest> states = {start, proof.initial, proof.final_state};
    states[1] = dispute.challenge.body.end->digest;
    dispute = over_states(dispute, states);
    manifest::VerdictRow row = dispute.challenge.body.row->row;
    row.agrees = false;
    row.reason = i == 8 ? RowReason::kStep : RowReason::kState;
    row.recomputed = row.witness = Digest{};
    dispute = with_row(dispute, row);
    protocol::Player verifier(small().program, shows);
    Moves moves{instead(game_after(dispute, {}), next_message(verifier, game_after(dispute, {})))};
    auto game = game_after(dispute, moves);
    if (!game.decision()) {  // the entry is foreign: having no line for it, the solver shows another
      protocol::EntryClaim claim;
      claim.line = opened_line(small().program, 0);
      moves.push_back(instead(game, claim));
    }
    const auto ruling = ruled(transcript_of(dispute, moves));
    REQUIRE(ruling.ok());
    INFO("state " << i << ": " << ruling->words);
    CHECK_FALSE(ruling->falls);
  }
}

TEST_CASE(
    "a verifier who keeps their rows to themselves has to show the one demanded, and it has to be theirs and "
    "right") {
  TinyParty honest(small());
  Setup setup;
  setup.about = About::kRow;
  setup.prover = setup.verifier = &honest;
  setup.policy_draw = setup.sealed = true;
  auto dispute = dispute_of(small(), setup);
  for (; !protocol::Game::open(dispute).ok(); dispute = dispute_of(small(), setup)) {
    REQUIRE(++setup.segment < 2);  // one of the two is drawn
  }
  const manifest::OpenedRow right = *honest.own_row;
  const auto outcome = [&](const Digest& root, const manifest::OpenedRow& shown, std::int64_t named) {
    manifest::Verdict verdict = dispute.verdict->body;
    verdict.rows.root = root;
    auto mine = dispute;
    mine.verdict = *manifest::seal(verdict, key(kJudge));
    auto challenge = mine.challenge.body;
    challenge.verdict = mine.verdict->id;
    mine.challenge = *manifest::seal(challenge, key(kChallenges));
    Moves moves{instead(game_after(mine, {}), protocol::RowPost{shown})};
    auto game = game_after(mine, moves);
    if (!game.decision()) {
      moves.push_back(instead(game, protocol::Name{named, std::nullopt}));
      REQUIRE(game.apply(moves.back()).ok());
    }
    protocol::Player defends(small().program, honest);
    while (!game.decision() && game.due().side == Side::kDefender) {
      moves.push_back(instead(game, next_message(defends, game)));
      REQUIRE(game.apply(moves.back()).ok());
      const auto* stage = game.stage<protocol::ChooseState>();
      if (stage == nullptr) break;
      moves.push_back(instead(game, protocol::Name{std::ssize(stage->states), std::nullopt}));
      REQUIRE(game.apply(moves.back()).ok());
    }
    const auto ruling = ruled(transcript_of(mine, moves));
    if (!ruling.ok()) return std::string("open");
    return std::string(ruling->falls ? "falls" : "stands");
  };
  const Digest root = dispute.verdict->body.rows.root;
  // The verifier's own row, with an honest replay: the game goes on, and nothing has fallen yet.
  CHECK(outcome(root, right, 0) == "open");
  CHECK(outcome(root, right, 1) == "open");
  // A root over nothing; a row that is not under the root; another segment's row; an invented witness.
  CHECK(outcome(digest("no rows"), right, 0) == "falls");
  auto other = right;
  other.row.witness = digest("another");
  CHECK(outcome(root, other, 1) == "falls");
  CHECK(outcome(manifest::rows_root(std::span(&other.row, 1)).root, other, 1) == "falls");
  other = right;
  other.row.index ^= 1;
  CHECK(outcome(manifest::rows_root(std::span(&other.row, 1)).root, other, 0) == "falls");
  other = right;
  other.row.recomputed = digest("another");
  other.row.agrees = false;
  other.row.reason = RowReason::kDigest;
  CHECK(outcome(manifest::rows_root(std::span(&other.row, 1)).root, other, 0) == "falls");
}
