// dgx-settle bounds: a policy beside the closed forms. Needs no ledger. dgx-settle(1).
#include "dgx/core/files.h"
#include "dgx/jobs/settle.h"
#include "market_cells.h"
#include "settle/commands.h"

namespace dgx::tools {
namespace {

/// A row's inputs, as an object and as "C 1000000, R 1000000".
cli::Cell inputs_cell(const protocol::Bound& bound) {
  json::Output::Object object;
  std::string text;
  for (const auto& [symbol, number] : bound.inputs) {
    object.insert_or_assign(symbol, bound_cell(number).value);
    text += (text.empty() ? "" : ", ") + symbol + " " + number;
  }
  return {json::Output(std::move(object)), text};
}

/// The keys to change, as an object and as "audit_ppm 50000".
cli::Cell mend_cell(const std::vector<protocol::Mend>& mends) {
  if (mends.empty()) return {json::Output(), ""};
  json::Output::Object object;
  std::string text;
  for (const protocol::Mend& mend : mends) {
    object.insert_or_assign(std::string(mend.key), json::Output(mend.value));
    text += (text.empty() ? "" : ", ") + std::string(mend.key) + " " + std::to_string(mend.value);
  }
  return {json::Output(std::move(object)), text};
}

struct Bounds {
  jobs::BoundsOptions options;
  std::optional<std::string> svg_path;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task_path, "a task, for its policy and its numbers");
    command.option("--policy", "FILE", options.policy_path,
                   "a policy instead, for a task of 1000000 base units in 100 segments");
    command.exactly_one({"TASK.json", "--policy"});
    command.option("--alpha", "PPM", options.input.alpha_ppm,
                   "part of all verifiers' bonds that a cheat's accomplices hold");
    command.option("--tasks", "N", options.input.tasks,
                   "tasks open at a time, among which volunteers choose");
    command.option("--svg", "FILE", svg_path,
                   "also draw a cheat's gain over what is faked, and the overhead over the audits");
    command.writes({"--svg"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output svg, out.claim(svg_path.value_or("-")));
    jobs::BoundsOptions request = options;
    request.trust = out.common().trust;
    request.picture = svg_path.has_value();
    DGX_TRY(const auto result, jobs::bounds_of(request));
    print(out, result);
    if (svg_path) DGX_CHECK(out.output(svg, result.svg));
    return cli::Verdict::kDone;
  }

 private:
  static void print(cli::Out& out, const jobs::PolicyBounds& result) {
    cli::Table rows{{"name", "value", "policy", "holds", "mend", "formula", "inputs"}};
    std::vector<protocol::Mend> mends;
    for (const protocol::Bound& bound : result.bounds) {
      rows.rows.push_back({bound.name, bound_cell(bound.value), bound_cell(bound.policy), bound.holds,
                           mend_cell(bound.mend), bound.formula, inputs_cell(bound)});
      mends.insert(mends.end(), bound.mend.begin(), bound.mend.end());
      if (!bound.warning.empty()) out.warning(bound.warning);
    }
    json::Output::Object all;
    for (const protocol::Mend& mend : mends)
      all.insert_or_assign(std::string(mend.key), json::Output(mend.value));
    cli::Table keys{{"key", "value", "default", "low", "high", "meaning"}};
    for (const manifest::PolicyKey& k : manifest::policy_keys())
      keys.rows.push_back({k.name, result.policy.*k.member, k.standard, k.low, k.high, k.meaning});
    out.field("bounds", std::move(rows));
    out.field("mends", std::move(all));
    out.field("policy", std::move(keys));
  }
};

}  // namespace

void add_bounds(cli::Tool& tool) {
  tool.add<Bounds>("bounds",
                   "print what deposits and rates should be by the closed forms, and the policy's keys");
}

}  // namespace dgx::tools
