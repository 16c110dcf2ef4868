#include "unpack_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "dgx/core/file_system.h"
#include "dgx/core/files.h"

namespace dgx::bundle {
namespace {

constexpr std::string_view kPart = ".part";

std::string default_folder() {
  const char* const scratch = std::getenv("TMPDIR");
  return fmt::format("{}/dgx-cache-{}", scratch != nullptr && *scratch != '\0' ? scratch : "/var/tmp",
                     ::geteuid());
}

/// An unpacked tensor, by its file.
struct Unpacked {
  std::string path;
  std::uint64_t size = 0;
  timespec used = {};
};

bool is_older(const Unpacked& a, const Unpacked& b) {
  return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
}

/// The folder's files whose names are a digest, the least recently used first. Removes what others have not
/// finished, and never will.
std::vector<Unpacked> files_in(const std::string& folder) {
  std::vector<Unpacked> out;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string path = entry.path().string();
    std::string name = entry.path().filename().string();
    const bool is_part = name.ends_with(kPart);
    if (is_part) name.resize(name.size() - kPart.size());
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (!digest_from_hex(name).ok()) continue;
    if (is_part) {
      file_system().unlink(path.c_str());
      continue;
    }
    out.push_back({path, static_cast<std::uint64_t>(info.st_size), info.st_mtim});
  }
  std::sort(out.begin(), out.end(), is_older);
  return out;
}

}  // namespace

/// Opens or makes a folder that is the user's alone to write.
Result<UnpackCache::Folder> UnpackCache::open_own(const std::string& path) {
  const bool made = file_system().mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST)
    return Error{ErrorCode::kCannotCreate, errno_error(path, "make the cache").message, {}};
  struct stat info {};
  // Not stat: through a link that somebody else has made, the folder would be theirs to choose.
  const bool own = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                   (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
                   ::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  if (own) return Folder{path, info.st_mode};
  return Error{ErrorCode::kCannotCreate,
               path + ": is not a folder of yours that only you may write, so it is not used as a cache",
               "DGX_CACHE names another"};
}

Result<std::optional<UnpackCache>> UnpackCache::open(const std::optional<std::string>& named) {
  const char* const variable = std::getenv("DGX_CACHE");
  const std::optional<std::string> chosen =
      named || variable == nullptr ? named : std::optional<std::string>(variable);
  if (chosen && chosen->empty()) return std::optional<UnpackCache>();
  auto own = open_own(chosen.value_or(default_folder()));
  if (own.ok()) return std::optional(UnpackCache(std::move(own), std::nullopt));
  std::error_code ignored;
  if (!chosen || !std::filesystem::is_directory(*chosen, ignored)) return std::move(own).error();
  return std::optional(UnpackCache(open_own(default_folder()), chosen));
}

/// Opens a tensor's file in the store. Time and size are its owner's affair.
std::optional<InputFile> UnpackCache::find_in_store(const Digest& tensor, std::uint64_t size) const {
  if (!store_) return std::nullopt;
  auto file = InputFile::open(*store_ + "/" + tensor.hex());
  if (!file.ok() || file->size_bytes() != size) return std::nullopt;
  return std::move(file).value();
}

/// Opens a tensor's file, and notes that it is in use. One of another size is removed.
std::optional<InputFile> UnpackCache::find(const Digest& tensor, std::uint64_t size) const {
  auto file = InputFile::open(path(tensor));
  if (!file.ok()) return std::nullopt;
  if (file->size_bytes() != size) {
    drop(tensor);
    return std::nullopt;
  }
  static_cast<void>(::futimens(file->descriptor(), nullptr));
  return std::move(file).value();
}

/// Removes files until one of `size` bytes may be added: together they have at most half of the room that
/// there is for them.
Status UnpackCache::make_room(std::uint64_t size) const {
  std::vector<Unpacked> files = files_in(own_->path);
  std::uint64_t used = 0;
  for (const Unpacked& file : files) used += file.size;
  struct statvfs system {};
  if (::statvfs(own_->path.c_str(), &system) != 0) return errno_error(own_->path, "look at");
  const std::uint64_t free = std::uint64_t{system.f_bavail} * system.f_frsize;
  const std::uint64_t most = (free + used) / 2;
  if (size > most)
    return Error{ErrorCode::kIo,
                 fmt::format("{}: no room for {} bytes: the cache may have {}", own_->path, size, most),
                 "DGX_CACHE names a folder with more room"};
  for (const Unpacked& file : files) {
    if (used + size <= most) break;
    if (file_system().unlink(file.path.c_str()) == 0) used -= file.size;
  }
  return {};
}

Result<UnpackCache::Entry> UnpackCache::make(const Digest& tensor, std::uint64_t size,
                                             const Fill& fill) const {
  const std::string part = path(tensor).append(kPart);
  const mode_t mode = 0600 | (own_->mode & 0444);
  const int made =
      file_system().open(part.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
  if (made < 0) return errno_error(part, "create");
  auto filled = [&]() -> Result<bool> {
    if (const int reason = ::posix_fallocate(made, 0, static_cast<off_t>(size)); reason != 0) {
      errno = reason;
      return errno_error(own_->path, fmt::format("take {} bytes", size));
    }
    return fill(made);
  }();
  file_system().close(made);
  auto file = filled.ok() ? InputFile::open(part) : Result<InputFile>(std::move(filled).error());
  const bool shared = file.ok() && *filled && file_system().rename(part.c_str(), path(tensor).c_str()) == 0;
  if (!shared) file_system().unlink(part.c_str());
  if (!file.ok()) return std::move(file).error();
  return Entry{std::move(file).value(), shared ? Place::kOwn : Place::kNameless};
}

Result<UnpackCache::Entry> UnpackCache::take(const Digest& tensor, std::uint64_t size, const StopFlag* stop,
                                             const Fill& fill) const {
  if (auto found = find_in_store(tensor, size)) return Entry{*std::move(found), Place::kStore};
  if (!own_.ok()) return within(*store_ + " does not have it, and there is no other cache", own_.error());
  if (auto found = find(tensor, size)) return Entry{*std::move(found), Place::kOwn};
  constexpr auto kLongest = std::chrono::hours(1);  // to unpack what others need
  DGX_TRY(const FileLock lock, FileLock::acquire(own_->path, {.most = kLongest, .stop = stop}));
  if (auto found = find(tensor, size)) return Entry{*std::move(found), Place::kOwn};
  DGX_CHECK(make_room(size));
  return make(tensor, size, fill);
}

void UnpackCache::drop(const Digest& tensor) const { file_system().unlink(path(tensor).c_str()); }

}  // namespace dgx::bundle
