// Preloaded into a tested program (cuts.py): records every call that changes files of one folder, or fails
// one of them.
//
//   DGX_CUTS_FOLDER    only calls on this folder count; it is also the program's working folder
//   DGX_CUTS_JOURNAL   the file that records them, one a line, in order
//   DGX_CUTS_FAIL      N:ERRNO: call N (from 0) fails with it; ENOSPC (28) also fails all later calls that
//   take space
//   DGX_CUTS_TICK      milliseconds: a clock that only goes forward does so by as many at each look
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <set>
#include <string>

namespace {

class Shim {
 public:
  static Shim& get() {
    static Shim* const shim = new Shim;  // programs still close files after static objects are gone
    return *shim;
  }

  std::recursive_mutex mutex;

  [[nodiscard]] bool is_here(const char* path) const {
    if (!on_) return false;
    return path[0] != '/' || std::string(path).starts_with(folder_ + "/") || path == folder_;
  }
  [[nodiscard]] bool tracks(int file) const { return open_.contains(file); }
  void track(int file) { open_.insert(file); }
  void forget(int file) { open_.erase(file); }

  /// True if the next call may proceed; else sets errno.
  bool go_on(bool takes_space) {
    const long call = calls_++;
    const bool fails =
        call == fail_at_ || (error_ == ENOSPC && fail_at_ >= 0 && call > fail_at_ && takes_space);
    if (fails) {
      say("failed");
      errno = error_;
    }
    return !fails;
  }

  void say(const std::string& line) const {
    if (journal_ < 0) return;
    const std::string text = line + "\n";
    for (std::size_t at = 0; at < text.size();) {
      const long done = ::syscall(SYS_write, journal_, text.data() + at, text.size() - at);
      if (done <= 0) ::_exit(99);
      at += static_cast<std::size_t>(done);
    }
  }

 private:
  Shim() {
    const char* const folder = std::getenv("DGX_CUTS_FOLDER");
    const char* const journal = std::getenv("DGX_CUTS_JOURNAL");
    const char* const fail = std::getenv("DGX_CUTS_FAIL");
    on_ = folder != nullptr;
    if (on_) folder_ = folder;
    if (journal != nullptr) {
      journal_ = static_cast<int>(
          ::syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    }
    if (fail != nullptr && std::sscanf(fail, "%ld:%d", &fail_at_, &error_) != 2) ::_exit(99);
  }

  bool on_ = false;
  std::string folder_;
  int journal_ = -1;
  long fail_at_ = -1;
  int error_ = 0;
  long calls_ = 0;
  std::set<int> open_;
};

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string hex_of(const void* bytes, std::size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<const unsigned char*>(bytes)[i];
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

bool changes(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0; }

int open_file(const char* path, int flags, mode_t mode) {
  Shim& shim = Shim::get();
  const bool here = shim.is_here(path) && (flags & O_TMPFILE) != O_TMPFILE;
  const std::lock_guard lock(shim.mutex);
  if (here && changes(flags) && !shim.go_on(true)) return -1;
  const int file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (file >= 0 && here) {
    shim.track(file);
    shim.say("open " + std::to_string(file) + " " + std::to_string(flags) + " " + path);
  }
  return file;
}

/// Makes a call on two paths, or on one and "".
template <class Call>
int name_call(const char* word, const char* from, const char* to, bool takes_space, Call call) {
  Shim& shim = Shim::get();
  if (!shim.is_here(from)) return call();
  const std::lock_guard lock(shim.mutex);
  if (!shim.go_on(takes_space)) return -1;
  const int done = call();
  if (done == 0) shim.say(std::string(word) + " " + from + " " + to);
  return done;
}

template <class Call>
int file_call(const char* word, int file, const std::string& rest, bool takes_space, Call call) {
  Shim& shim = Shim::get();
  const std::lock_guard lock(shim.mutex);
  if (!shim.tracks(file)) return call();
  if (!shim.go_on(takes_space)) return -1;
  const int done = call();
  if (done == 0) shim.say(std::string(word) + " " + std::to_string(file) + " " + rest);
  return done;
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

ssize_t write_at(int file, const void* bytes, std::size_t size, off_t at) {
  Shim& shim = Shim::get();
  const std::lock_guard lock(shim.mutex);
  const auto call = [&] {
    return at < 0 ? ::syscall(SYS_write, file, bytes, size) : ::syscall(SYS_pwrite64, file, bytes, size, at);
  };
  if (!shim.tracks(file)) return call();
  if (!shim.go_on(true)) return -1;
  const long done = call();
  if (done > 0) {
    shim.say("write " + std::to_string(file) + " " + std::to_string(at) + " " +
             hex_of(bytes, static_cast<std::size_t>(done)));
  }
  return done;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_file(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_file(path, flags, mode);
}

int close(int file) {
  Shim& shim = Shim::get();
  const std::lock_guard lock(shim.mutex);
  if (shim.tracks(file)) {
    shim.forget(file);
    shim.say("close " + std::to_string(file));
  }
  return static_cast<int>(::syscall(SYS_close, file));
}

ssize_t write(int file, const void* bytes, size_t size) { return write_at(file, bytes, size, -1); }
ssize_t pwrite(int file, const void* bytes, size_t size, off_t at) { return write_at(file, bytes, size, at); }
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t at) {
  return write_at(file, bytes, size, at);
}

int ftruncate(int file, off_t size) noexcept {
  return file_call("ftruncate", file, std::to_string(size), false,
                   [&] { return static_cast<int>(::syscall(SYS_ftruncate, file, size)); });
}

int fsync(int file) {
  // Not executed: the effect of a crash is derived from the journal.
  return file_call("fsync", file, "", true, [] { return 0; });
}

int rename(const char* from, const char* to) noexcept {
  return name_call("rename", from, to, true,
                   [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return name_call("rename", from, to, true, [&] {
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  });
}

int link(const char* from, const char* to) noexcept {
  return name_call("link", from, to, true,
                   [&] { return next<int(const char*, const char*)>("link")(from, to); });
}

int unlink(const char* path) noexcept {
  return name_call("unlink", path, "", false, [&] { return next<int(const char*)>("unlink")(path); });
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const char* const tick = std::getenv("DGX_CUTS_TICK");
  static std::atomic<std::int64_t> looks = 0;
  const int done = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (tick != nullptr && clock == CLOCK_MONOTONIC) {
    const std::int64_t more = ++looks * std::atol(tick);
    time->tv_sec += more / 1000;
    time->tv_nsec += more % 1000 * 1'000'000;
    if (time->tv_nsec >= 1'000'000'000) ++time->tv_sec, time->tv_nsec -= 1'000'000'000;
  }
  return done;
}

int mkdir(const char* path, mode_t mode) noexcept {
  return name_call("mkdir", path, "", true,
                   [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

}  // extern "C"
