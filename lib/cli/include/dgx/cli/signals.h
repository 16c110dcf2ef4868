#pragma once

#include "dgx/core/stop.h"

namespace dgx::cli {

/// From now on SIGTERM, SIGINT and SIGUSR1 set the returned flag (always the same one) and do nothing else. A
/// second SIGINT ends the process at once: a user who presses the key twice means it. Schedulers send SIGTERM
/// repeatedly, so that only ever sets the flag.
const StopFlag& watch_signals();

/// From now on writing to a pipe without a reader fails with EPIPE, and writing beyond the file size limit
/// (ulimit -f) with EFBIG, instead of ending the process: the exit code is right, and no temporary file is
/// left.
void ignore_write_signals();

}  // namespace dgx::cli
