#pragma once

#include <optional>
#include <string>

#include "dgx/core/files.h"
#include "dgx/core/progress.h"
#include "dgx/core/stop.h"

namespace dgx {

/// What every job gets from the program around it, beside its own options: the options that all programs share, someone to
/// talk to, and the flag that ends it early. Owns nothing; what it points to outlives the job.
struct JobContext {
  int threads = 1;                             ///< --threads, at least 1
  Clobber clobber = Clobber::kRefuse;          ///< kReplace with --force
  std::optional<std::string> trust = {};       ///< --trust: a public key file, or a folder of them
  Progress& progress;
  const StopFlag& stop;
};

}  // namespace dgx
