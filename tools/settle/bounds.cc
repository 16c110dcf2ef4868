// dgx-settle bounds: a policy beside the closed forms. Needs no ledger. dgx-settle(1).
#include "dgx/jobs/settle.h"
#include "market_cells.h"
#include "settle/commands.h"

namespace dgx::tools {
namespace {

struct Bounds {
  std::optional<std::string> task_path;
  std::optional<std::string> policy_path;

  void declare(cli::Command& command) {
    command.positional("TASK.json", task_path, "a task, for its policy and its numbers");
    command.option("--policy", "FILE", policy_path,
                   "a policy instead, for a task of 1000000 base units in 100 segments");
    command.exactly_one({"TASK.json", "--policy"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const auto result, task_path ? jobs::bounds_of_task(*task_path, out.common().trust)
                                         : jobs::bounds_of_policy(*policy_path));
    cli::Table bounds{{"name", "value", "policy", "holds", "formula"}};
    for (const protocol::Bound& bound : result.bounds)
      bounds.rows.push_back(
          {bound.name, bound_cell(bound.value), bound_cell(bound.policy), bound.holds, bound.formula});
    cli::Table keys{{"key", "value", "default", "low", "high", "meaning"}};
    for (const manifest::PolicyKey& k : manifest::policy_keys())
      keys.rows.push_back({k.name, result.policy.*k.member, k.standard, k.low, k.high, k.meaning});
    out.field("bounds", std::move(bounds));
    out.field("policy", std::move(keys));
    return cli::Verdict::kDone;
  }
};

}  // namespace

void add_bounds(cli::Tool& tool) {
  tool.add<Bounds>("bounds",
                   "print deposits, jackpot and thresholds from the closed forms, and the policy's keys");
}

}  // namespace dgx::tools
