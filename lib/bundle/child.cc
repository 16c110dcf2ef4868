#include "child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "dgx/core/beside.h"

namespace dgx::bundle {
namespace {

/// Our environment without the variables that HDF5 would obey.
std::vector<char*> environment_without_hdf5() {
  std::vector<char*> out;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("HDF5_")) out.push_back(*entry);
  }
  out.push_back(nullptr);
  return out;
}

/// The descriptors that a child inherits: only the container and the pipe, no terminal.
class Inheritance {
 public:
  Inheritance(int container, int answer) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_adddup2(&files_, container, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, answer, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    ::sigemptyset(&none);
    sigset_t defaults;
    ::sigfillset(&defaults);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  Inheritance(const Inheritance&) = delete;
  Inheritance& operator=(const Inheritance&) = delete;
  ~Inheritance() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// Returns 0, or errno.
  int spawn(const std::string& program, const std::string& argument, pid_t& child) const {
    std::string name = "dgx-h5";
    std::string path = argument;
    const std::array<char*, 3> arguments{name.data(), path.data(), nullptr};
    return ::posix_spawn(&child, program.c_str(), &files_, &attributes_, arguments.data(),
                         environment_without_hdf5().data());
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// Reads until the pipe's other end is closed, or to one byte more than an answer may have.
Bytes read_answer(int from) {
  Bytes out(65536);
  std::size_t used = 0;
  while (used <= kMaxMessageBytes) {
    if (used == out.size()) out.resize(2 * out.size());
    const ssize_t got = ::read(from, out.data() + used, out.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  out.resize(used);
  return out;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

Result<Table> judge(int status, ByteView answer) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return decode_message(answer);
  if (WIFEXITED(status))
    return internal_error(fmt::format("dgx-h5 cannot run: it exited with status {}", WEXITSTATUS(status)));
  const int signal = WTERMSIG(status);
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
      return malformed(fmt::format("crashes the HDF5 library (signal {})", signal),
                       "only a separate process crashed; nothing was lost");
    case SIGXCPU: return malformed("takes the HDF5 library more than a minute to open");
    default:
      return Error{ErrorCode::kInterrupted, fmt::format("dgx-h5 was killed (signal {})", signal),
                   "run the command again"};
  }
}

}  // namespace

Result<Table> ask_child(const InputFile& container, const std::string& path) {
  if (path.find('\0') != std::string::npos) return usage_error("a path inside a file has no null byte");
  const std::string program = beside_program("DGX_H5", "libexec/dgx-h5");
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return system_error("make a pipe", errno);
  pid_t child = -1;
  const int reason = Inheritance(container.descriptor(), pipe[1]).spawn(program, path, child);
  ::close(pipe[1]);
  if (reason != 0) {
    ::close(pipe[0]);
    return internal_error(fmt::format("cannot start {}: {}", program, std::strerror(reason)),
                          "it comes with this program: install both, or set DGX_H5");
  }
  const Bytes answer = read_answer(pipe[0]);
  // Closing the pipe ends a child that writes too much.
  ::close(pipe[0]);
  return judge(wait_for(child), answer);
}

}  // namespace dgx::bundle
