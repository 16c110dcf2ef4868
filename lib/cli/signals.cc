#include "dgx/cli/signals.h"

#include <unistd.h>

#include <csignal>

#include "dgx/core/files.h"

namespace dgx::cli {
namespace {

StopFlag stop_flag;
RequestFlag where_flag;
RequestFlag save_flag;

extern "C" void dgx_on_stop(int) { stop_flag.request(); }

/// Ends the process by the signal, whose default action SA_RESETHAND has restored.
extern "C" void dgx_on_end(int signal) {
  remove_temporaries();
  raise(signal);
}

extern "C" void dgx_on_where(int) { where_flag.request(); }
extern "C" void dgx_on_hangup(int) { save_flag.request(); }

void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags | SA_RESTART;  // a write in progress is finished, not cut short
  sigaction(signal, &action, nullptr);
}

void end_on(int signal) { handle(signal, dgx_on_end, static_cast<int>(SA_RESETHAND | SA_NODEFER)); }

/// The first SIGINT asks to stop, the second ends the process.
extern "C" void dgx_on_interrupt(int signal) {
  stop_flag.request();
  end_on(signal);
}

}  // namespace

const StopFlag& watch_signals() {
  handle(SIGTERM, dgx_on_stop);
  handle(SIGUSR1, dgx_on_stop);
  handle(SIGINT, dgx_on_interrupt);
  handle(SIGUSR2, dgx_on_where);
  return stop_flag;
}

RequestFlag& where_requests() { return where_flag; }

RequestFlag& watch_hangup() {
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) handle(SIGHUP, dgx_on_hangup);
  return save_flag;
}

void stop_after(std::chrono::seconds time) {
  handle(SIGALRM, dgx_on_stop);
  alarm(static_cast<unsigned>(time.count()));
}

void tidy_on_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGALRM, SIGXCPU}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) end_on(signal);
  }
}

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace dgx::cli
