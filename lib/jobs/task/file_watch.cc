#include "task/file_watch.h"

#include <fmt/chrono.h>
#include <sys/stat.h>

#include <thread>

namespace dgx::jobs {

std::vector<std::int64_t> FileWatch::now() const {
  std::vector<std::int64_t> out;
  for (const std::string& path : paths_) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) info = {};
    out.insert(out.end(), {static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino),
                           info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec});
  }
  return out;
}

Status FileWatch::wait(const std::string& awaited, std::chrono::milliseconds at_most) const {
  constexpr std::chrono::milliseconds kInterval{100};
  const std::string again = "run the same command again to go on";
  const Clock::time_point begin = Clock::now();
  while (now() == seen_ && Clock::now() - begin < at_most) {
    if (stop_.requested())
      return Error{ErrorCode::kInterrupted, "stopped while waiting for " + awaited, again};
    if (is_out_of_patience())
      return Error{ErrorCode::kInterrupted, fmt::format("waited {} for {}", *patience_, awaited), again};
    std::this_thread::sleep_for(kInterval);
  }
  return {};
}

}  // namespace dgx::jobs
