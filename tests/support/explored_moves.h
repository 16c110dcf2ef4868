#pragma once

#include <map>
#include <optional>
#include <vector>

#include "explored.h"
#include "history_plans.h"

namespace dgx::test {

/// A market on a walk, and what the ledger does not say about it.
struct Node {
  protocol::Market market{};
  std::int64_t now = 0;                                ///< receipt time; there are no pauses
  std::map<std::uint8_t, manifest::Verdict> audits{};  ///< what each has committed to
  int games = 0;                                       ///< begun by those who are not honest

  [[nodiscard]] const protocol::TaskRecord& record(const Digest& task) const {
    return market.tasks().at(task);
  }
};

/// A statement that may be logged in a state.
struct Choice {
  manifest::Signed<manifest::Body> statement;
  std::uint8_t who = kOperator;
  bool is_due = false;                           ///< an honest party must not miss it
  std::optional<manifest::Verdict> hidden = {};  ///< the audit to which it commits
  bool is_game = false;                          ///< begins one, and its signer is not honest
};

/// All statements that the people of a small market may try in the state of `node`. The market refuses some.
[[nodiscard]] std::vector<Choice> choices_in(const Node& node, const SmallMarket& people, const Plans& plans);

}  // namespace dgx::test
