// dgx-settle simulate: markets of people who are not there. Needs no ledger. dgx-settle(1).
#include "dgx/jobs/simulate.h"

#include <fmt/format.h>

#include <cmath>

#include "market_cells.h"
#include "settle/commands.h"

namespace dgx::tools {
namespace {

/// A number of base units that is a mean.
cli::Cell amount_cell(double amount) { return {json::Output(amount), fmt::format("{:.1f}", amount)}; }
cli::Cell part_cell(double part) { return {json::Output(part), fmt::format("{:.6f}", part)}; }
cli::Cell part_cell(const std::optional<double>& part) { return part ? part_cell(*part) : no_cell(); }
cli::Cell percent_cell(double percent) { return {json::Output(percent), fmt::format("{:.4f}", percent)}; }

struct Simulate {
  jobs::SimulateOptions options;
  std::optional<std::string> svg_path;

  void declare(cli::Command& command) {
    command.required("--policy", "FILE", options.policy_path, "the market's policy");
    command.option("--agents", "A.json", options.agents_path, "the people; four honest ones unless given");
    command.required("--tasks", "N", options.tasks, "tasks, of 1000000 base units in 100 segments each");
    command.option("--markets", "M", options.markets,
                   "independent markets among which the tasks are divided; one for 10000 unless given");
    command.option("--open", "N", options.open, "tasks that are open at a time in each market");
    command.required("--seed", "N", options.seed, "where all random numbers begin");
    command.option("--svg", "FILE", svg_path, "also draw the jackpot account, and what people gain");
    command.writes({"--svg"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output svg, out.claim(svg_path.value_or("-")));
    jobs::SimulateOptions request = options;
    request.picture = svg_path.has_value();
    DGX_TRY(const jobs::Simulation result, jobs::simulate_files(request, out.job()));
    print(out, result);
    if (svg_path) DGX_CHECK(out.output(svg, result.svg));
    return cli::Verdict::kDone;
  }

 private:
  void print(cli::Out& out, const jobs::Simulation& result) const {
    out.field("seed", options.seed);
    out.field("tasks", result.tasks);
    out.field("markets", result.markets);
    out.field("open", options.open);
    out.field("statements", result.statements);
    out.field("cost", result.cost);
    out.field("reward", result.reward);
    out.field("recheck", result.recheck);
    cli::Table reasons{{"reason", "tasks"}};
    for (const auto& [reason, count] : result.reasons) reasons.rows.push_back({reason, count});
    out.field("reasons", std::move(reasons));
    cli::Table earnings{{"kind", "role", "tasks", "mean", "low", "high", "total"}};
    for (const jobs::Earnings& row : result.earnings)
      earnings.rows.push_back({name_of(row.kind), name_of(row.role), row.times, amount_cell(row.mean),
                               amount_cell(row.low), amount_cell(row.high), amount_cell(row.total)});
    out.field("earnings", std::move(earnings));
    cli::Table rates{{"rate", "of", "hits", "mean", "low", "high", "expected", "p"}};
    for (const jobs::Rate& row : result.rates)
      rates.rows.push_back({row.name, row.times, row.hits, part_cell(row.rate), part_cell(row.low),
                            part_cell(row.high), part_cell(row.expected), part_cell(row.p)});
    out.field("rates", std::move(rates));
    print_pool(out, result);
    out.field("overhead_percent", percent_cell(result.overhead_percent));
    out.field("audits_percent", percent_cell(result.audits_percent));
    out.field("jackpots_percent", percent_cell(result.jackpots_percent));
    out.field("volunteers_paid_for", result.volunteers_paid_for);
    print_rechecking(out, result);
  }

  /// Text has every tenth point.
  static void print_pool(cli::Out& out, const jobs::Simulation& result) {
    json::Output::Array points;
    cli::Table table{{"percent", "mean", "least"}};
    for (const jobs::PoolPoint& point : result.pool) {
      points.emplace_back(
          json::Output::Object{{"percent", point.percent}, {"mean", point.mean}, {"least", point.least}});
      if (point.percent % 10 == 0)
        table.rows.push_back({point.percent, amount_cell(point.mean), point.least});
    }
    if (out.common().json) {
      out.field("pool", std::move(points));
    } else {
      out.field("pool", std::move(table));
    }
    out.field("pool_least", result.pool_least);
  }

  /// The price of having a part of all tasks re-checked, in percent of the training: the draw, as here, and
  /// the whole task, as others have it; and of so many people who re-check every task for jackpots alone.
  static void print_rechecking(cli::Out& out, const jobs::Simulation& result) {
    cli::Table table{{"rechecked", "of", "audits", "jackpots", "jackpots_with_makers"}};
    const auto add = [&](std::string_view what, double price) {
      for (const jobs::RecheckPrice& row : result.rechecking)
        table.rows.push_back({part_cell(row.share), what, percent_cell(row.audits * price),
                              percent_cell(row.jackpots * price), percent_cell(row.with_makers * price)});
    };
    add("draw", 100 * static_cast<double>(result.recheck) / static_cast<double>(result.cost));
    add("task", 100);
    out.field("rechecking_percent", std::move(table));
    cli::Table full{{"people", "percent"}};
    for (const double people : {3.3, 6.6})
      full.rows.push_back({people, percent_cell(100 * std::exp2(people - 1))});
    out.field("full_rechecking", std::move(full));
  }
};

}  // namespace

void add_simulate(cli::Tool& tool) {
  tool.add<Simulate>("simulate", "play markets of people who cheat, idle and collude");
}

}  // namespace dgx::tools
