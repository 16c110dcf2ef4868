#pragma once

#include <optional>
#include <string>

#include "dgx/cli/tool.h"
#include "dgx/jobs/forecast.h"
#include "seconds_cell.h"

namespace dgx::tools {

/// --plan, in text or as lines for a job script, and the rate that gives it seconds.
class PlanOption {
 public:
  /// --profile is declared by the program.
  void declare(cli::Command& command, const std::string& help) {
    command.optional_value("--plan", "slurm", form_, help);
    command.option(
        "--rate", "OPS", rate_,
        "with --plan: how many weighted operations the machine makes in a second, which gives the time");
    command.only_with({"--rate"}, {"--plan"});
    command.at_most_one({"--rate", "--profile"});
  }

  [[nodiscard]] bool given() const { return form_.has_value(); }
  [[nodiscard]] bool is_slurm() const { return given() && (*form_ == "slurm" || *form_ == "slurm-last"); }
  [[nodiscard]] jobs::RateSource rate(const std::optional<std::string>& profile) const {
    return {rate_, profile};
  }
  /// kUsage for another form than slurm and slurm-last, or for those as JSON.
  [[nodiscard]] Status check(const cli::Out& out) const {
    if (given() && *form_ && !is_slurm())
      return usage_error("--plan: '" + **form_ + "' is not slurm",
                         "without a form, --plan prints text or JSON; slurm-last is the job after an array");
    if (is_slurm() && out.common().json)
      return usage_error("--plan=" + **form_ + " prints lines for a job script, and --json an object",
                         "leave out one of them");
    return {};
  }

  static void print(cli::Out& out, const jobs::Needs& needs, const std::optional<jobs::Needs>& last = {}) {
    if (needs.seconds) out.field("seconds", seconds_cell(*needs.seconds));
    if (needs.longest_seconds) out.field("longest_seconds", seconds_cell(*needs.longest_seconds));
    out.field("memory_bytes", needs.memory_bytes);
    if (!last) return;
    if (last->seconds) out.field("last_seconds", seconds_cell(*last->seconds));
    out.field("last_memory_bytes", last->memory_bytes);
  }
  /// The lines for the job, or for the one that follows its array. kUsage if none follows it.
  [[nodiscard]] Result<cli::Verdict> print_slurm(cli::Out& out, const jobs::Needs& needs,
                                                 const std::optional<jobs::Needs>& last,
                                                 jobs::Resumes resumes = jobs::Resumes::kNo) const {
    const bool is_last = *form_ == "slurm-last";
    if (is_last && !last)
      return usage_error("--plan=slurm-last is about the job after an array", "--shard I/N makes it one");
    DGX_TRY(const std::string lines,
            jobs::slurm_lines(is_last ? *last : needs, out.common().threads, resumes));
    out.raw(lines);
    return cli::Verdict::kDone;
  }

 private:
  std::optional<std::optional<std::string>> form_;
  std::optional<double> rate_;
};

}  // namespace dgx::tools
