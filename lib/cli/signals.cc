#include "dgx/cli/signals.h"

#include <csignal>

namespace dgx::cli {
namespace {

StopFlag stop_flag;

extern "C" void dgx_on_signal(int) { stop_flag.request(); }

void handle(int signal, int flags) {
  struct sigaction action {};
  action.sa_handler = dgx_on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags | SA_RESTART;  // a write in progress is finished, not cut short
  sigaction(signal, &action, nullptr);
}

}  // namespace

const StopFlag& watch_signals() {
  handle(SIGTERM, 0);
  handle(SIGUSR1, 0);
  handle(SIGINT, static_cast<int>(SA_RESETHAND));
  return stop_flag;
}

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace dgx::cli
