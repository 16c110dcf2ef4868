#include "cpu/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace dgx::exec {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// The number in a control group's file; kNone if it is "max" or there is no such file.
std::int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t limit = 0;
  return file >> limit && limit > 0 ? limit : kNone;
}

/// The least limit of a group and its ancestors.
std::int64_t limit_of_group(const std::string& root, std::string group, const std::string& name) {
  std::int64_t limit = limit_in(root + "/" + name);
  while (group.size() > 1) {
    limit = std::min(limit, limit_in(root + group + "/" + name));
    group.resize(group.rfind('/'));
  }
  return limit;
}

/// Lines of /proc/self/cgroup are number:controllers:group; version 2's controllers are empty.
std::int64_t limit_of_groups() {
  std::int64_t limit = kNone;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) limit = std::min(limit, limit_of_group("/sys/fs/cgroup", group, "memory.max"));
    if (controllers == "memory") {
      limit = std::min(limit, limit_of_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

}  // namespace

std::int64_t memory_limit() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  std::int64_t limit = pages > 0 && page > 0 ? pages * page : kNone;
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < static_cast<rlim_t>(kNone)) {
    limit = std::min(limit, static_cast<std::int64_t>(space.rlim_cur));
  }
  return std::min(limit, limit_of_groups());
}

Status check_memory(std::int64_t planned_bytes) {
  const std::int64_t limit = memory_limit();
  if (planned_bytes <= limit) return {};
  return usage_error("a step needs " + std::to_string(planned_bytes) +
                         " bytes of memory, this process may have " + std::to_string(limit),
                     "use a smaller batch, or a machine with more memory");
}

}  // namespace dgx::exec
