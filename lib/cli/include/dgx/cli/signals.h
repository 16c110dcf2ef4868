#pragma once

#include "dgx/core/stop.h"

namespace dgx::cli {

/// From now on SIGTERM, SIGINT and SIGUSR1 set the flag that is returned (always the same one) and do nothing else. A second
/// SIGINT ends the process at once: whoever presses the key twice means it. Schedulers send SIGTERM repeatedly, so that only ever
/// sets the flag.
const StopFlag& watch_signals();

/// Writing to a pipe whose reader is gone fails with EPIPE instead of ending the process, so that the work is finished and the
/// exit code says how it went.
void ignore_broken_pipes();

}  // namespace dgx::cli
