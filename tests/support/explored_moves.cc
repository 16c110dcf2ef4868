#include "explored_moves.h"

#include <algorithm>
#include <array>

#include "dgx/protocol/draw.h"
#include "dgx/protocol/forced.h"
#include "dgx/protocol/player.h"
#include "dgx/protocol/rounds.h"
#include "dgx/protocol/verify.h"
#include "statements.h"

namespace dgx::test {
namespace {

using namespace manifest;
using protocol::TaskRecord;
using protocol::TaskState;

constexpr std::array kPeople{kSolver, kVerifier, kWatcher, kFirstStranger};

std::uint8_t key_of(const Digest& id) {
  std::uint8_t who = kOperator;
  while (id_of(who) != id) ++who;
  return who;
}

/// Collects objections and moves of games; what else may be said in one state is its heir's.
class Objections {
 protected:
  Objections(const Node& node, const SmallMarket& people, const Plans& plans)
      : node_(node),
        people_(people),
        plans_(plans),
        task_(plans.stage.scene.task),
        record_(node.record(task_.id)),
        state_(protocol::standing(record_, node.now).state) {}

  [[nodiscard]] bool is_honest(std::uint8_t who) const { return people_.honest.contains(who); }
  [[nodiscard]] bool rounds_draw() const { return task_.body.policy.beacon_source != 0; }

  template <class T>
  Choice& say(const T& body, std::uint8_t who) {
    out_.push_back({any_of_kind(said(body, who)), who, is_honest(who)});
    return out_.back();
  }
  /// Says what its signer need not.
  template <class T>
  Choice& offer(const T& body, std::uint8_t who) {
    Choice& out = say(body, who);
    out.is_due = false;
    return out;
  }
  void verdict(const Result<Verdict>& body, std::uint8_t who) {
    if (body.ok()) say(*body, who);
  }

  [[nodiscard]] std::int64_t first_drawn() const {
    const auto all = *protocol::segments_of(task_.body, record_.proof->body);
    return protocol::policy_draw(task_.body, all, record_.round->source.value, record_.proof->id, Digest{})
        ->front();
  }

  [[nodiscard]] bool may_challenge(std::uint8_t who, const Digest& statement) const {
    const bool plays = std::any_of(record_.games.begin(), record_.games.end(), [&](const auto& game) {
      return game.statement() == statement && game.game.dispute().challenger() == id_of(who);
    });
    return !plays && !protocol::has_fallen(record_, statement, node_.now);
  }
  void challenge(const Challenge& body, std::uint8_t who) {
    if (!may_challenge(who, body.statement())) return;
    if (is_honest(who)) {
      say(body, who);
    } else if (node_.games < people_.games) {
      say(body, who).is_game = true;
    }
  }

  void object() {
    const bool window = state_ == TaskState::kChallengeWindow;
    for (const std::uint8_t who : kPeople) {
      const bool finds = plans_.wrong_segment && who != kSolver && record_.opening && window;
      if (finds || (!is_honest(who) && who != kSolver))
        challenge(challenge_of(plans_, record_, plans_.wrong_segment.value_or(0)), who);
      if (window && record_.verdict) object_to_verdicts(who);
    }
    const auto asked = protocol::verifier_at(record_, node_.now);
    if (window && asked && !record_.verdict && !is_honest(key_of(*asked)))
      verdict(verdict_of(plans_, record_, key_of(*asked), true), key_of(*asked));
  }

  void object_to_verdicts(std::uint8_t who) {
    std::vector<Signed<Verdict>> said_here{*record_.verdict};
    for (const protocol::Recheck& one : record_.rechecks) {
      if (one.audit) said_here.push_back(*one.audit);
    }
    for (const Signed<Verdict>& one : said_here) {
      if (one.key_id == id_of(who) || !one.body.first_disagreement) continue;
      const bool counts = !one.body.audits || protocol::is_auditor(record_, one.key_id);
      // A verdict falls with an auditor's refutation that stands.
      const bool theirs = who == kSolver || record_.verdict->key_id == id_of(who);
      const bool hurts = theirs && counts && refutes_falsely(plans_, one.body);
      if (hurts || !is_honest(who)) challenge(challenge_of_verdict(plans_, record_, one), who);
    }
    const bool states = !record_.verdict->body.witnesses.empty() && record_.verdict->key_id != id_of(who);
    if (!states || protocol::secret_fate(record_, node_.now) == protocol::SecretFate::kWithheld) return;
    if (!is_honest(who)) {
      if (who != kSolver) challenge(challenge_of_witness(plans_, record_, first_drawn()), who);
      return;
    }
    // An honest re-check has found this: invented witnesses, or a forced one that is true.
    const protocol::Recheck* const own = protocol::recheck_of(record_, id_of(who));
    if (own == nullptr || !own->audit) return;
    const auto forced = protocol::forced_segment(record_);
    std::vector<std::int64_t> wrong = own->audit->body.denied;
    if (forced) std::erase(wrong, *forced);
    if (protocol::confirms_forced(record_, *own) && protocol::is_auditor(record_, id_of(who)))
      wrong.push_back(*forced);
    if (!wrong.empty()) challenge(challenge_of_witness(plans_, record_, wrong.front()), who);
  }

  /// The moves of games that are open: an honest party's, or a liar's own story, or nothing, which loses.
  void moves() {
    if (!record_.proof || record_.settlement) return;
    const auto ends = protocol::ends_of(record_, node_.now);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i]) continue;
      const protocol::Game& game = record_.games[i].game;
      const std::uint8_t who = key_of(game.party(game.due().side));
      if (is_honest(who)) {
        const bool after = plans_.is_after_fault(game.dispute().challenge.body.segment);
        move(game, who, after ? *plans_.cheat_player : *plans_.honest_player,
             plans_.replay_of(game.dispute().challenge.body.segment));
        continue;
      }
      const bool slanders = game.due().side == protocol::Side::kChallenger || who != kSolver;
      TinyParty& own = slanders ? *plans_.slander : plans_.cheat ? *plans_.cheat : *plans_.stage.honest;
      move(game, who,
           slanders       ? *plans_.slander_player
           : plans_.cheat ? *plans_.cheat_player
                          : *plans_.honest_player,
           own);
      say(Move{task_.id,
               game.dispute().challenge.id,
               std::clamp<std::int64_t>(game.turn(), 1, kMaxTurn),
               game.last(),
               {}},
          who);
    }
  }
  void move(const protocol::Game& game, std::uint8_t who, protocol::Player& player, TinyParty& story) {
    const auto segment = static_cast<std::size_t>(game.dispute().challenge.body.segment);
    story.look(plans_.stage.segments[segment].first, plans_.stage.segments[segment].end);
    const auto next = player.next(game);
    if (!next.ok() || !*next) return;
    say(Move{task_.id, game.dispute().challenge.id, std::clamp<std::int64_t>(game.turn(), 1, kMaxTurn),
             game.last(), protocol::print_message(**next)},
        who);
  }

  const Node& node_;
  const SmallMarket& people_;
  const Plans& plans_;
  const Signed<Task>& task_;
  const TaskRecord& record_;
  const TaskState state_;
  std::vector<Choice> out_;
};

/// Collects what may be said in one state.
class Collector : private Objections {
 public:
  Collector(const Node& node, const SmallMarket& people, const Plans& plans)
      : Objections(node, people, plans) {}

  std::vector<Choice> all() {
    rounds();
    switch (state_) {
      case TaskState::kOpen: begin(); break;
      case TaskState::kAssigned: say(proof_of(plans_), kSolver); break;
      case TaskState::kProofCommitted: break;
      case TaskState::kAwaitingOpening:
      case TaskState::kDrawn: open(); break;
      case TaskState::kOpened:
      case TaskState::kVerifyCommitted: verify(); break;
      case TaskState::kRecheck: recheck(); break;
      case TaskState::kReveal: reveal(); break;
      case TaskState::kChallengeWindow: object(); break;
      case TaskState::kAwaitingDelivery: deliver(); break;
      case TaskState::kDue:
        for (const Settlement& due : node_.market.due(node_.now)) say(due, kOperator);
        break;
      case TaskState::kArbitration:
      case TaskState::kSettled: break;
    }
    moves();
    return std::move(out_);
  }

 private:
  void begin() {
    const Task& task = task_.body;
    const std::int64_t least = protocol::bonds_of(task).verifier;
    for (const std::uint8_t who : {kVerifier, kWatcher}) {
      if (!rounds_draw() && who == kWatcher) continue;
      std::optional<std::int64_t> bond;
      if (rounds_draw()) bond = who == kVerifier ? least : 2 * least;
      offer(BeaconCommitment{task_.id, beacon_commitment(secret_of(who)), task.dataset.digest,
                             task.initial.digest, 1, bond},
            who);
    }
    Assign assign{task_.id, std::nullopt, task.dataset.digest, task.initial.digest, 1};
    if (!rounds_draw() && !record_.offers.empty()) assign.commitment = record_.offers.begin()->first;
    if (!record_.offers.empty()) offer(assign, kSolver);
  }

  void rounds() {
    const Policy& policy = task_.body.policy;
    if (!rounds_draw() && state_ == TaskState::kProofCommitted && !record_.beacon) {
      const Digest secret = secret_of(kVerifier);
      say(Beacon{task_.id, record_.offers.begin()->first, record_.proof->id, secret,
                 beacon_value(secret, record_.proof->id)},
          kVerifier);
    }
    for (const protocol::WaitingSlot& slot : node_.market.slots_waiting()) {
      if (protocol::end_of_slot(slot.slot, policy) > node_.now) continue;
      for (const char* const value : {"a round", "another round"}) {
        DelayChain chain{policy.beacon_steps, {}};
        for (std::int64_t i = 0; i < delay_checkpoints(chain.steps); ++i)
          chain.checkpoints.push_back(digest(value));
        const Digest drawn = round_value(chain);
        say(Round{plans_.stage.ledger.id, slot.slot, slot.head, std::move(chain), drawn}, kOperator);
      }
    }
  }

  void open() {
    const auto duty = protocol::opening_duty(record_);
    if (node_.now >= duty->begins_ms)
      say(Opening{task_.id, record_.proof->id, duty->after, "opening"}, kSolver);
  }

  void verify() {
    const std::uint8_t who = key_of(*protocol::verifier_at(record_, node_.now));
    const auto replayed = verdict_of(plans_, record_, who, false);
    if (is_honest(who)) {
      if (state_ == TaskState::kOpened) verdict(replayed, who);
      return;
    }
    verdict(replayed, who);
    verdict(verdict_of(plans_, record_, who, true), who);
    if (state_ == TaskState::kOpened && replayed.ok())
      say(VerdictCommitment{task_.id, record_.proof->id,
                            verdict_commitment(said(*replayed, who).id, replayed->nonce), std::nullopt},
          who);
    if (!protocol::rechecks_verdicts(task_.body.policy)) return;
    verdict(lazy_verdict_of(plans_, record_, who), who);
    if (protocol::forces_errors(task_.body.policy))
      verdict(verdict_of(plans_, record_, who, false, true), who);
  }

  /// The audits that somebody may commit to: the true one, and of those who are not honest one that refutes,
  /// one that denies, and one with a guess for a witness.
  [[nodiscard]] std::vector<Verdict> audits_by(std::uint8_t who) const {
    const auto replayed = audit_of(plans_, record_, who);
    if (!replayed.ok()) return {};
    std::vector<Verdict> out{*replayed};
    if (is_honest(who)) return out;
    const std::int64_t index = first_drawn();
    Verdict refutes = *replayed, denies = *replayed, guesses = *replayed;
    refutes.outcome = Outcome::kRefuted;
    refutes.witnesses.clear();
    refutes.denied.clear();
    refutes.first_disagreement = VerdictRow{index,
                                            plans_.digests[static_cast<std::size_t>(index) + 1],
                                            digest("no state"),
                                            false,
                                            RowReason::kDigest,
                                            digest("no witness")};
    denies.denied = {index};
    if (!guesses.witnesses.empty()) guesses.witnesses.front() = digest("a guess");
    out.insert(out.end(), {refutes, denies, guesses});
    return out;
  }

  void recheck() {
    for (const std::uint8_t who : kPeople) {
      if (who == kSolver || id_of(who) == record_.verdict->key_id ||
          protocol::recheck_of(record_, id_of(who)) != nullptr)
        continue;
      const bool owes = protocol::is_auditor(record_, id_of(who));
      if (!owes && who != kFirstStranger) continue;
      for (const Verdict& audit : audits_by(who)) {
        const VerdictCommitment hidden{task_.id, record_.proof->id,
                                       verdict_commitment(said(audit, who).id, audit.nonce),
                                       record_.verdict->id};
        Choice& choice = owes ? say(hidden, who) : offer(hidden, who);
        choice.hidden = audit;
      }
    }
    secret(kFirstStranger);
    object();
  }

  /// Somebody reveals the verifier's secret: the owner, or who was told by one who is not honest.
  void secret(std::uint8_t who) {
    if (!protocol::owes_secret(record_) || record_.secret) return;
    const std::uint8_t owner = key_of(record_.verdict->key_id);
    if (who != owner && is_honest(owner)) return;
    const auto own = std::find_if(record_.offers.begin(), record_.offers.end(), [&](const auto& one) {
      return one.second.statement.key_id == id_of(owner);
    });
    const Digest secret = secret_of(owner);
    const Beacon body{task_.id, own->first, record_.proof->id, secret,
                      beacon_value(secret, record_.proof->id)};
    if (who == owner) {
      say(body, who);
    } else {
      offer(body, who);
    }
  }

  void reveal() {
    for (const auto& [who, audit] : node_.audits) {
      const protocol::Recheck* const own = protocol::recheck_of(record_, id_of(who));
      if (own != nullptr && !own->audit) say(audit, who);
    }
    if (protocol::owes_secret(record_)) secret(key_of(record_.verdict->key_id));
    object();
  }

  void deliver() {
    Delivery body{task_.id, record_.proof->id, plans_.digests.back(), std::nullopt};
    offer(body, kSubmitter);
    body.location = "final";
    say(body, kSolver);
  }
};

}  // namespace

std::vector<Choice> choices_in(const Node& node, const SmallMarket& people, const Plans& plans) {
  return Collector(node, people, plans).all();
}

}  // namespace dgx::test
