#include "confine.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dgx::bundle {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

constexpr rlim_t kMemoryBytes = rlim_t{2} << 30;
constexpr rlim_t kProcessorSeconds = 60;

/// Lowers a limit to `most`; never raises it, which would need a privilege.
bool limit(__rlimit_resource what, rlim_t most) {
  rlimit now{};
  if (::getrlimit(what, &now) != 0) return false;
  now.rlim_max = now.rlim_max < most ? now.rlim_max : most;
  now.rlim_cur = now.rlim_max;
  return ::setrlimit(what, &now) == 0;
}

bool set_limits() {
  bool all = limit(RLIMIT_CORE, 0) && limit(RLIMIT_CPU, kProcessorSeconds);
  if (!kSanitized) all = limit(RLIMIT_AS, kMemoryBytes) && limit(RLIMIT_NOFILE, 0) && all;
  return all;
}

/// Landlock has no function in the C library, and its header is newer than some that we build with.
bool forbid_files() {
#if defined(SYS_landlock_create_ruleset) && defined(SYS_landlock_restrict_self)
  constexpr std::uint64_t kEveryAccessOfVersion1 = (std::uint64_t{1} << 13) - 1;
  const std::uint64_t handled = kEveryAccessOfVersion1;
  const auto rules = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
  if (rules < 0) return false;
  const bool done = ::syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  ::close(rules);
  return done;
#else
  return false;
#endif
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

/// Calls on memory and on open descriptors, and those that end the process. None makes a descriptor or a
/// process, or sends a signal.
constexpr std::array kAllowed{
    SYS_read,         SYS_pread64,         SYS_write,         SYS_lseek,     SYS_close,
    SYS_munmap,       SYS_mremap,          SYS_brk,           SYS_madvise,   SYS_futex,
    SYS_exit,         SYS_exit_group,      SYS_getpid,        SYS_gettid,    SYS_rt_sigprocmask,
    SYS_rt_sigaction, SYS_rt_sigreturn,    SYS_clock_gettime, SYS_getrandom, SYS_gettimeofday,
    SYS_sched_yield,  SYS_restart_syscall,
};
/// Allowed unless they ask for executable memory.
constexpr std::array kMapping{SYS_mmap, SYS_mprotect};

sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
sock_filter answer(std::uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }
/// Skips the next `count` instructions unless the loaded word is `value`.
sock_filter unless(std::uint32_t value, std::uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

/// The filter of system calls. A call that is not allowed fails as if permission were lacking: a library that
/// tries one must cope with that anyway. A call of another architecture kills the process.
std::vector<sock_filter> filter() {
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  // The lower half of a 64-bit argument, little-endian.
  constexpr std::size_t kProtection = offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t);
  std::vector<sock_filter> code{load(offsetof(seccomp_data, arch)), unless(kArchitecture, 1),
                                BPF_STMT(BPF_JMP | BPF_JA, 1), answer(SECCOMP_RET_KILL_PROCESS),
                                load(offsetof(seccomp_data, nr))};
  for (const long call : kAllowed) {
    code.push_back(unless(static_cast<std::uint32_t>(call), 1));
    code.push_back(answer(SECCOMP_RET_ALLOW));
  }
  for (const long call : kMapping) {
    code.push_back(unless(static_cast<std::uint32_t>(call), 4));
    code.push_back(load(kProtection));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    code.push_back(answer(SECCOMP_RET_ALLOW));
    code.push_back(answer(kRefuse));
  }
  code.push_back(answer(kRefuse));
  return code;
}

bool forbid_calls() {
  if (kSanitized || kArchitecture == 0) return false;
  std::vector<sock_filter> code = filter();
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

Confinement confine_this_process() {
  ::prctl(PR_SET_DUMPABLE, 0);
  Confinement walls;
  // With no_new_privs set, Landlock and seccomp need no privilege. Landlock needs a descriptor, so the limits
  // come after it.
  const bool no_new_rights = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  walls.files = no_new_rights && !kSanitized && forbid_files();
  walls.limits = set_limits();
  walls.syscalls = no_new_rights && forbid_calls();
  return walls;
}

std::string describe(const Confinement& confinement) {
  std::string text;
  const auto add = [&](bool stands, const char* name) {
    if (stands) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(confinement.limits, "limits");
  add(confinement.syscalls, "syscalls");
  add(confinement.files, "files");
  return text.empty() ? "nothing" : text;
}

}  // namespace dgx::bundle
