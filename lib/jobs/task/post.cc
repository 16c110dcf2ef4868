#include "task/post.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace dgx::jobs {
namespace {

/// Starts a process whose standard output is our standard error, with the usual signals. Returns 0, or errno.
int start(char* const arguments[], pid_t& child) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigfillset(&defaults);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int reason = ::posix_spawn(&child, "/bin/sh", &files, &attributes, arguments, ::environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return reason;
}

/// The words for how a process ended.
std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Status post(const std::string& command, const std::string& path) {
  std::string shell = "sh", option = "-c", script = command + " \"$@\"", name = "sh", file = path;
  const std::array<char*, 6> arguments{shell.data(), option.data(), script.data(),
                                       name.data(),  file.data(),   nullptr};
  pid_t child = -1;
  const int reason = start(arguments.data(), child);
  if (reason != 0)
    return Error{ErrorCode::kIo, fmt::format("--post: cannot start /bin/sh: {}", std::strerror(reason)), {}};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error{ErrorCode::kIo, fmt::format("--post: '{}' {} for {}", command, end_of(status), path),
               "what was signed is kept: run the same command again to hand it on"};
}

}  // namespace dgx::jobs
