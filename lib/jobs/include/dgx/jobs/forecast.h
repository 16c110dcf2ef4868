#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

/// The speed of the machine that will run a job, as its user knows it: at most one of them.
struct RateSource {
  std::optional<double> rate;          ///< weighted operations a second, of all threads together
  std::optional<std::string> profile;  ///< a dgx-profile, of the same task or of one like it
};

/// Weighted operations a second that `context.threads` threads make, nullopt if the source says nothing. Of a
/// profile, the fastest of its replays with as many threads or fewer; one with more counts for the threads'
/// share of it, which is never too much. kUsage for a rate below a thousandth or above 10^18; kMissing,
/// kMalformed and kUnauthorised for a profile.
[[nodiscard]] Result<std::optional<double>> operations_per_second(const RateSource& source,
                                                                  const JobContext& context);

/// A job's needs, before it runs: dgx-verify(1), TIME AND MEMORY.
struct Needs {
  std::optional<double> seconds;  ///< of the steps; none if no rate is known
  std::int64_t memory_bytes = 0;  ///< its peak, or that of any shard, is not above this
  std::int64_t state_bytes = 0;   ///< states that are read and hashed besides, of the shard with most
  std::optional<std::int64_t> shards = {};     ///< it is one of an array of so many
  std::optional<double> longest_seconds = {};  ///< of the one that takes longest, if a rate is known
};

/// Seconds of the job after an array for each shard that it merges, and each proof of its list.
inline constexpr double kSecondsPerFile = 0.01;

/// A job that is told before its time is over, and put into the queue again, or one that is not.
enum class Resumes { kNo, kYes };

/// Lines for the head of a job script: how many CPUs, how much memory and time, and of an array which
/// indices. kUsage if no rate is known, or if it is more time or a longer array than a job may have.
[[nodiscard]] Result<std::string> slurm_lines(const Needs& needs, int threads, Resumes resumes);

}  // namespace dgx::jobs
