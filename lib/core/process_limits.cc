#include "dgx/core/process_limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

namespace dgx {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// The number in a control group's file; kNone if it is "max", negative, or there is no such file.
std::int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t limit = 0;
  return file >> limit && limit > 0 ? limit : kNone;
}

/// CPUs of a group of version 2, whose file has a quota and a period.
std::int64_t cpus_in(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::int64_t quota = 0;
  std::int64_t period = 0;
  return file >> quota >> period && quota > 0 && period > 0 ? (quota + period - 1) / period : kNone;
}

/// CPUs of a group of version 1.
std::int64_t cpus_in_old(const std::string& folder) {
  const std::int64_t quota = limit_in(folder + "/cpu.cfs_quota_us");
  const std::int64_t period = limit_in(folder + "/cpu.cfs_period_us");
  return quota == kNone || period == kNone ? kNone : (quota + period - 1) / period;
}

/// The least limit of a group and its ancestors.
std::int64_t least(const std::string& root, std::string group,
                   const std::function<std::int64_t(const std::string& folder)>& limit_of) {
  std::int64_t limit = limit_of(root);
  while (group.size() > 1) {
    limit = std::min(limit, limit_of(root + group));
    group.resize(group.rfind('/'));
  }
  return limit;
}

/// True if `controller` is in a list with commas.
bool has(std::string_view list, std::string_view controller) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == controller) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// The least limit of this process's control groups: by `newer` where the hierarchy is version 2, by `older`
/// where it is that of `controller`. Lines of /proc/self/cgroup are number:controllers:group; version 2's
/// controllers are empty.
std::int64_t limit_of_groups(const std::string& controller,
                             const std::function<std::int64_t(const std::string& folder)>& newer,
                             const std::function<std::int64_t(const std::string& folder)>& older) {
  std::int64_t limit = kNone;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) limit = std::min(limit, least("/sys/fs/cgroup", group, newer));
    if (has(controllers, controller))
      limit = std::min(limit, least("/sys/fs/cgroup/" + controller, group, older));
  }
  return limit;
}

std::int64_t variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return 0;
  const std::string_view view(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  const bool is_number = error == std::errc() && end == view.data() + view.size();
  return is_number && value > 0 && value < (kNone >> 40) ? value : 0;
}

/// The memory that Slurm gave the job on this node, which not every cluster enforces by control groups. Zero,
/// which stands for all of the node's, is no limit.
std::int64_t limit_of_slurm() {
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  const std::int64_t node = variable("SLURM_MEM_PER_NODE");
  if (node > 0) return node * kMebibyte;
  const std::int64_t each = variable("SLURM_MEM_PER_CPU");
  const std::int64_t cpus = variable("SLURM_CPUS_ON_NODE");
  return each > 0 && cpus > 0 && cpus < (1 << 20) ? each * cpus * kMebibyte : kNone;
}

/// Ranks that mpirun has started on this machine, of which this process is one; 1 if it has not.
std::int64_t ranks_here() {
  return std::max({std::int64_t{1}, variable("OMPI_COMM_WORLD_LOCAL_SIZE"), variable("MPI_LOCALNRANKS")});
}

int found_cpu_limit() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // sched_getaffinity fails on machines with more CPUs than the set holds.
  const std::int64_t cpus = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                                ? CPU_COUNT(&allowed)
                                : static_cast<std::int64_t>(std::thread::hardware_concurrency());
  // Ranks share what the machine and the groups have, and may be bound to fewer CPUs each.
  const std::int64_t machine = std::max<std::int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
  const std::int64_t shared = std::min(machine, limit_of_groups("cpu", cpus_in, cpus_in_old)) / ranks_here();
  return static_cast<int>(std::max<std::int64_t>(1, std::min(cpus, shared)));
}

}  // namespace

int cpu_limit() {
  static const int limit = found_cpu_limit();
  return limit;
}

std::int64_t memory_limit(int processes) {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t machine = pages > 0 && page > 0 ? pages * page : kNone;
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(kNone);
  const std::int64_t space = is_limited ? static_cast<std::int64_t>(limit.rlim_cur) : kNone;
  const std::int64_t groups = limit_of_groups(
      "memory", [](const std::string& folder) { return limit_in(folder + "/memory.max"); },
      [](const std::string& folder) { return limit_in(folder + "/memory.limit_in_bytes"); });
  return std::min(space, std::min({machine, groups, limit_of_slurm()}) / processes);
}

}  // namespace dgx
