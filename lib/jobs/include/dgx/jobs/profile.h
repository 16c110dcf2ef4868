#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"
#include "dgx/manifest/profile.h"

namespace dgx::jobs {

/// dgx-profile(1).
struct ProfileOptions {
  std::string task;
  std::string data;
  std::optional<std::string> program;
  std::optional<std::string> init;
  std::int64_t steps = 8;  ///< steps per segment
  std::int64_t segments = 2;
  bool quick = false;                  ///< one replay only: the best instruction set and all threads
  std::optional<std::string> against;  ///< recheck this profile, with its numbers of steps and segments
  KeyFile key;                         ///< empty path: sign nothing
  std::string output = "-";            ///< PROFILE.json, or "-": only in the result
};

struct ProfileResult {
  manifest::Profile profile;
  double other_seed_max_abs = 0;  ///< greatest difference in any parameter
  double steps_per_second = 0;    ///< speed of the fastest replay
  std::optional<bool> agrees;     ///< set with --against: the profile agrees with the one given
  std::optional<Digest> id;       ///< the profile's, if it was signed
  std::string envelope;
};

/// Replays segments at the beginning of an exact task with every number of threads and every instruction set
/// of this machine, compares all states, and measures how far another seed ends up, the rate, the memory, and
/// how long the task's longest segment takes with all threads.
///
/// kInternal, and nothing is signed, if two replays differ: then this machine or build breaks the numeric
/// contract. A profile's differing replays and its distance are functions of the task, so `agrees` compares
/// them exactly; rates are not compared.
[[nodiscard]] Result<ProfileResult> profile(const ProfileOptions& options, const JobContext& context);

}  // namespace dgx::jobs
