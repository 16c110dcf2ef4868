#include "dgx/jobs/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dgx/jobs/proof_files.h"
#include "dgx/manifest/profile.h"

namespace dgx::jobs {
namespace {

/// The rate of a profile's replays with `threads` threads. The fastest of all has the rate that it states.
double rate_of(const manifest::Profile& profile, int threads) {
  double least = std::numeric_limits<double>::infinity();
  for (const manifest::ProfileReplay& replay : profile.replays)
    least = std::min(least, static_cast<double>(std::max<std::int64_t>(replay.nanoseconds_per_step, 1)));
  double best = 0;
  for (const manifest::ProfileReplay& replay : profile.replays) {
    const double each = static_cast<double>(std::max<std::int64_t>(replay.nanoseconds_per_step, 1));
    const double share =
        std::min(1.0, threads / static_cast<double>(std::max<std::int64_t>(replay.threads, 1)));
    best = std::max(best, static_cast<double>(profile.operations_per_second) * least / each * share);
  }
  return best;
}

/// "1-02:03:00" of minutes.
std::string slurm_time(std::int64_t minutes) {
  const std::int64_t days = minutes / 1440;
  return fmt::format("{}{:02}:{:02}:00", days > 0 ? fmt::format("{}-", days) : "", minutes % 1440 / 60,
                     minutes % 60);
}

}  // namespace

Result<std::optional<double>> operations_per_second(const RateSource& source, const JobContext& context) {
  if (source.rate) {
    // So that no time of any work is infinite.
    if (*source.rate >= 1e-3 && *source.rate <= 1e18) return std::optional(*source.rate);
    return usage_error("--rate must be from 0.001 to 1e18");
  }
  if (!source.profile) return std::optional<double>();
  DGX_TRY(const auto profile, read_signed<manifest::Profile>(*source.profile, context.trust));
  const double rate = rate_of(profile.body, context.threads);
  if (rate > 0) return std::optional(rate);
  return malformed(*source.profile + ": states a rate of zero");
}

Result<std::string> slurm_lines(const Needs& needs, int threads, Resumes resumes) {
  if (!needs.seconds)
    return usage_error("a time limit needs a rate",
                       "give --profile P.json, of dgx-profile on such a node, or --rate OPS");
  constexpr double kMargin = 1.5;
  constexpr double kStateBytesPerSecond = 50e6;
  // A job is told this long before its end, and Slurm may be a minute early.
  const double lead = (resumes == Resumes::kYes ? 120 : 60) + 60;
  const double seconds = needs.longest_seconds.value_or(*needs.seconds) * kMargin +
                         static_cast<double>(needs.state_bytes) / kStateBytesPerSecond + 60 + lead;
  constexpr double kMost = 366.0 * 86400;
  if (!(seconds <= kMost))
    return usage_error(fmt::format("takes {:.0f} days, more than the 366 of a job", seconds / 86400),
                       "--shard I/N divides a verification; is the rate right?");
  constexpr std::int64_t kMostShards = 4'000'001;  // MaxArraySize of Slurm, at most
  if (needs.shards.value_or(0) > kMostShards)
    return usage_error(fmt::format("--shard: an array has {} jobs at most", kMostShards));
  const auto minutes = static_cast<std::int64_t>(std::ceil(seconds / 60));
  const std::int64_t mebibytes = (needs.memory_bytes + (1 << 20) - 1) >> 20;
  std::string out;
  if (needs.shards) out += fmt::format("#SBATCH --array=0-{}\n", *needs.shards - 1);
  out += fmt::format("#SBATCH --cpus-per-task={}\n#SBATCH --mem={}M\n#SBATCH --time={}\n", threads, mebibytes,
                     slurm_time(minutes));
  if (resumes == Resumes::kYes) out += "#SBATCH --signal=B:USR1@120\n#SBATCH --requeue\n";
  return out;
}

}  // namespace dgx::jobs
