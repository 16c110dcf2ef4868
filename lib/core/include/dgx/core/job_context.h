#pragma once

#include <optional>
#include <string>

#include "dgx/core/files.h"
#include "dgx/core/progress.h"
#include "dgx/core/stop.h"

namespace dgx {

/// The context that a program gives every job besides its own options: the options that all programs share,
/// the progress to report to, and the flag that ends the job early. Owns nothing; what it refers to outlives
/// the job.
struct JobContext {
  int threads = 1;                        ///< --threads, at least 1
  Clobber clobber = Clobber::kRefuse;     ///< kReplace with --force
  std::optional<std::string> trust = {};  ///< --trust: a public key file, or a folder of them
  Progress& progress;
  const StopFlag& stop;
  /// The request to save the state and go on, for jobs that can; null if there is no way to make it.
  RequestFlag* save = nullptr;
  LockWait lock_wait = {};  ///< --wait
};

}  // namespace dgx
