#pragma once

#include <chrono>

#include "dgx/core/stop.h"

namespace dgx::cli {

/// From now on SIGTERM, SIGINT and SIGUSR1 set the returned flag (always the same one) and do nothing else. A
/// second SIGINT ends the process at once: a user who presses the key twice means it. Schedulers send SIGTERM
/// repeatedly, so that only ever sets the flag. SIGUSR2 sets where_requests().
const StopFlag& watch_signals();

/// The request to say where the work is, always the same flag: SIGUSR2 sets it from watch_signals() on.
[[nodiscard]] RequestFlag& where_requests();

/// From now on SIGHUP sets the returned flag (always the same one) instead of ending the process, unless the
/// process was started to ignore it, as nohup(1) does.
RequestFlag& watch_hangup();

/// Sets the flag of watch_signals() after this time, which is at least a second.
void stop_after(std::chrono::seconds time);

/// From now on a signal that ends the process first removes the temporary files of its outputs
/// (dgx/core/files.h). Signals that are ignored, as by nohup(1), stay so. The calls above replace it for
/// their signals, until a second SIGINT.
void tidy_on_signals();

/// From now on writing to a pipe without a reader fails with EPIPE, and writing beyond the file size limit
/// (ulimit -f) with EFBIG, instead of ending the process: the exit code is right, and no temporary file is
/// left.
void ignore_write_signals();

}  // namespace dgx::cli
