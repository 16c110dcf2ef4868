#include "confine.h"

#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace dgx::torch_bridge {
namespace {

// The kernel's numbers; linux/landlock.h of an older distribution lacks the last ones.
constexpr int kNewest = 5;
constexpr std::uint64_t kReadFile = 1U << 2;
constexpr std::uint64_t kReadFolder = 1U << 3;
constexpr std::uint64_t kFilesSince[kNewest + 1] = {0, 1U << 12, 1U << 13, 1U << 14, 1U << 14, 1U << 15};
constexpr std::uint64_t kNetwork = 3;  // bind and connect, since version 4

struct Rules {
  std::uint64_t files;
  std::uint64_t network;
};

/// Applies a ruleset without rules: everything that it handles is forbidden.
void give_up_writing() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return;
  // Each version's newest right and all before it, less those to read.
  const std::uint64_t newest = kFilesSince[version < kNewest ? version : kNewest];
  const bool has_network = version >= 4;
  const Rules rules{(newest | (newest - 1)) & ~(kReadFile | kReadFolder), has_network ? kNetwork : 0};
  const std::size_t size = has_network ? sizeof(Rules) : sizeof(rules.files);
  const auto set = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, size, 0));
  if (set < 0) return;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) ::syscall(SYS_landlock_restrict_self, set, 0);
  ::close(set);
}

}  // namespace

void run_confined(const std::function<void()>& work) {
  std::thread([&work] {
    give_up_writing();
    work();
  }).join();
}

}  // namespace dgx::torch_bridge
