#pragma once

#include <map>
#include <string>

#include "explored_moves.h"

namespace dgx::test {

/// The whole of a node, in words: the time, the balances, and all that the task's record says.
[[nodiscard]] std::string whole_of(const Node& node, const protocol::TaskRecord& record);

/// The names of statements: digests of all that they say but for the ids of rounds, which depend on when they
/// were logged. In a market without rounds different statements have different names.
class Names {
 public:
  /// Names a statement that the market has taken.
  void add(const manifest::Signed<manifest::Body>& statement);
  [[nodiscard]] const Digest& of(const Digest& id) const { return names_.at(id); }

 private:
  std::map<Digest, Digest> names_;  ///< by id
};

/// The future of a node: of the whole, only what the statements that may follow, and the task's end, can
/// still depend on, in words. From two nodes of one text the same statements lead, after the same waits, to
/// nodes of one text again, and so to ends of the same reason and the same balances. It leaves out
///
/// - what time it is. Rules compare times with each other, no statement but a round says one, and balances do
///   not depend on any: a time is written as its distance from now;
/// - times that have done their work. A step that is owed has a deadline, counted from the step before, which
///   is the standing's. Once it is taken, or missed, only the end of the challenge window, the standing's
///   deadline again, depends on when that was; and once that window is over, nothing does;
/// - when a game was last moved in: its deadline says when it has to be again. It also counts how long the
///   defender's answers were delayed by other games, which matters after 63 windows: outlasts_delays();
/// - of a game that is over all but its result, its bond, and whether it was won just now: a game about the
///   same statement that is lost at that very time keeps its result, one that is lost later does not;
/// - of a verdict that was committed to and not shown all but its signer: in choices_in() it is that of a
///   replay.
///
/// In a market with rounds it is the whole until the draw, or the end of the time for it, since the slot in
/// which a proof is logged is a matter of absolute time; and always where verdicts are re-checked, since
/// their ids decide who is drawn to audit them.
[[nodiscard]] std::string future_of(const Node& node, const protocol::TaskRecord& record, const Names& names);

/// The outcome of a task that is settled, which is all of its future: the reason, the proof, and the
/// balances.
[[nodiscard]] std::string outcome_of(const Node& node, const protocol::TaskRecord& record);

/// True if the games of a task, each of which can delay each answer in the others by a window, are too short
/// and too few for any to be delayed by as much as is allowed.
[[nodiscard]] bool outlasts_delays(const protocol::TaskRecord& record);

}  // namespace dgx::test
