#include "dgx/core/inputs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

namespace dgx {
namespace {

thread_local int t_searches = 0;

/// Device, inode and time of birth, which is 0 where the file system has none: an inode is used again after
/// its file's removal.
using Identity = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::int64_t, std::uint32_t>;

/// The identity of a regular file: of a descriptor if `path` is "".
std::optional<Identity> identity(int descriptor, const char* path) {
  struct statx info {};
  if (::statx(descriptor, path, *path == '\0' ? AT_EMPTY_PATH : 0, STATX_BASIC_STATS | STATX_BTIME, &info) !=
          0 ||
      !S_ISREG(info.stx_mode))
    return std::nullopt;
  return Identity{info.stx_dev_major, info.stx_dev_minor, info.stx_ino, info.stx_btime.tv_sec,
                  info.stx_btime.tv_nsec};
}

class Inputs {
 public:
  void add(const std::optional<Identity>& file) {
    if (!file) return;
    const std::lock_guard lock(mutex_);
    files_.insert(*file);
  }
  [[nodiscard]] bool has(const std::optional<Identity>& file) {
    const std::lock_guard lock(mutex_);
    return file && files_.contains(*file);
  }

 private:
  std::mutex mutex_;
  std::set<Identity> files_;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

}  // namespace

void note_input(int descriptor) {
  if (t_searches == 0) inputs().add(identity(descriptor, ""));
}

void note_input(const std::string& path) {
  if (!path.empty()) inputs().add(identity(AT_FDCWD, path.c_str()));
}

bool is_input(const std::string& path) {
  return !path.empty() && inputs().has(identity(AT_FDCWD, path.c_str()));
}

Search::Search() { ++t_searches; }
Search::~Search() { --t_searches; }

}  // namespace dgx
