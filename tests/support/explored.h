#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "histories.h"

namespace dgx::test {

/// The states of a walk that are taken for one, and gone on from once: kFuture, those with one future
/// (explored_states.h), whatever follows each of which follows the others. kChecked, the same, and at each of
/// them it is checked that the states after it have the futures of those after the first. kWhole, with that
/// check, only states of which the whole is the same, and so without it in a walk of some sequences, which
/// are the more varied for it. The check is for markets that do not re-check verdicts: in those the ledger's
/// head, which covers more than a state says, draws who is to.
enum class Merging : std::uint8_t { kFuture, kChecked, kWhole };

/// A small market of which all histories are walked through: one task, of a submitter who does nothing more.
/// kSolver may solve it, kVerifier and kWatcher may verify it, whichever is not drawn may be its auditor, and
/// kFirstStranger volunteers, and robs whoever sells a secret.
struct SmallMarket {
  MarketKind kind = MarketKind::kForced;
  /// Those who do what they owe, at the latest at its deadline, and else nothing but what the programs do;
  /// the others do anything.
  std::set<std::uint8_t> honest = {};
  bool cheats = false;  ///< the proof has a wrong segment
  int games = 1;        ///< begun by those who are not honest
  /// About so many sequences, spread over all choices, each of which leads to an end; 0: all there are.
  std::int64_t sequences = 0;
  Merging merging = Merging::kFuture;
};

/// The outcome of a walk.
struct Explored {
  std::string problem;                       ///< empty: no rule was broken
  std::vector<std::string> path;             ///< the statements that lead to it, as kind and receipt time
  std::int64_t states = 0;                   ///< number of different ones
  std::int64_t statements = 0;               ///< number accepted
  bool complete = true;                      ///< false if some choice was not followed
  std::map<std::string, std::int64_t> ends;  ///< count of different ends by reason
  std::set<std::string> outcomes;            ///< of the ends: reason, proof and balances
  std::set<std::string> standings;           ///< names of the states of the task
};

/// Walks through every sequence of statements of these people and of rounds, whose values are two; each
/// statement when it is first possible, when a slot has ended, at each deadline and a millisecond after. In
/// every state
///
/// - the sum of all accounts is deposits less withdrawals, and none is negative;
/// - the task ends if nobody says anything more;
///
/// and in every end a replay has the same balances, an honest solver who proved has the reward more than
/// before, and an honest verifier, auditor or volunteer as much as before at least. `plant`: a fault, as for
/// histories.
[[nodiscard]] Explored explore(const SmallMarket& market, const Plant& plant = {});

}  // namespace dgx::test
