#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dgx/protocol/settlement.h"
#include "history_stage.h"

namespace dgx::test {

/// The plans of everybody in one history, drawn at its beginning: who is honest, and what the others lie
/// about.
///
/// There are three replays of the task. The honest one is the stage's. A cheat's has one wrong step, and
/// their proof commits to its states. A lying verifier's has a wrong step in a drawn segment, which they call
/// wrong. Whoever defends or attacks a statement does it from one of the three, by a player of its own.
struct Plans {
  /// Draws them. `stage` must outlive them.
  Plans(Stage& stage, Dice& dice);

  [[nodiscard]] bool is_honest(std::uint8_t who) const { return who < kFirstStranger && honest[who]; }
  /// True if a right replay of the segment, from the committed state before it, starts from the cheat's
  /// states: it comes after their only fault.
  [[nodiscard]] bool is_after_fault(std::int64_t segment) const {
    return wrong_segment && segment > *wrong_segment;
  }
  [[nodiscard]] TinyParty& replay_of(std::int64_t segment) const {
    return is_after_fault(segment) ? *cheat : *stage.honest;
  }

  Stage& stage;
  std::array<bool, kFirstStranger> honest{};
  std::unique_ptr<TinyParty> cheat;  ///< null if the solver's proof is right
  std::unique_ptr<TinyParty> slander;
  std::unique_ptr<protocol::Player> honest_player, cheat_player, slander_player;
  std::vector<Digest> digests;                ///< the committed states
  std::optional<std::int64_t> wrong_segment;  ///< of the solver's proof
  std::int64_t slandered = 0;                 ///< the segment that a lying verifier calls wrong
  bool withholds = false;                     ///< the operator logs no round
};

[[nodiscard]] manifest::Proof proof_of(const Plans& plans);
/// `who`'s verdict: the rows of the policy's draw as a replay finds them; for a lie, a single row that calls
/// the slandered segment wrong. Where errors are forced it misstates the witness that has to be false, unless
/// it is to `disobey`. Errors of assemble_verdict().
[[nodiscard]] Result<manifest::Verdict> verdict_of(const Plans& plans, const protocol::TaskRecord& record,
                                                   std::uint8_t who, bool lie, bool disobey = false);
/// A verdict that accepts what the policy draws, unseen: its witnesses are guesses.
[[nodiscard]] Result<manifest::Verdict> lazy_verdict_of(const Plans& plans,
                                                        const protocol::TaskRecord& record, std::uint8_t who);
/// `who`'s audit of the task's verdict, as a replay finds it.
[[nodiscard]] Result<manifest::Verdict> audit_of(const Plans& plans, const protocol::TaskRecord& record,
                                                 std::uint8_t who);
/// True if the verdict's or audit's first disagreement is not that of a replay.
[[nodiscard]] bool refutes_falsely(const Plans& plans, const manifest::Verdict& verdict);
/// A challenge of the witness that the task's verdict states for a segment of the draw.
[[nodiscard]] manifest::Challenge challenge_of_witness(const Plans& plans, const protocol::TaskRecord& record,
                                                       std::int64_t segment);
/// A challenge of a segment of the proof, and one of the row in which a verdict first disagrees.
[[nodiscard]] manifest::Challenge challenge_of(const Plans& plans, const protocol::TaskRecord& record,
                                               std::int64_t segment);
[[nodiscard]] manifest::Challenge challenge_of_verdict(const Plans& plans, const protocol::TaskRecord& record,
                                                       const manifest::Signed<manifest::Verdict>& verdict);

}  // namespace dgx::test
