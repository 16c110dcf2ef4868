#include "store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/manifest/opening.h"

namespace dgx::jobs {
namespace {

constexpr int kOpenLink = ELOOP;  // of O_NOFOLLOW, open(2)

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }

 private:
  int value_;
};

std::vector<std::string> parts_of(std::string_view location) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = std::min(location.find('/'), location.size());
    out.emplace_back(location.substr(0, end));
    if (end == location.size()) return out;
    location.remove_prefix(end + 1);
  }
}

/// The error of openat() with O_NOFOLLOW: a folder's link is ENOTDIR, a file's ELOOP; a socket or a device without a driver
/// is ENXIO.
Error open_error(const std::string& path) {
  const int reason = errno;
  if (reason == kOpenLink || reason == ENOTDIR || reason == ENXIO)
    return malformed(path + ": is no regular file, or lies behind a link");
  Error error = errno_error(path, "open");
  if (reason == EACCES || reason == EPERM) error.code = ErrorCode::kMissing;
  return error;
}

/// The length of a regular file with one name.
Result<std::int64_t> plain_size(const Descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return errno_error(path, "look at");
  if (!S_ISREG(info.st_mode)) return malformed(path + ": is no regular file");
  if (info.st_nlink > 1) return malformed(path + ": is a link: the file has other names");
  return static_cast<std::int64_t>(info.st_size);
}

Result<Descriptor> open_plain(int folder, const std::vector<std::string>& parts, const std::string& path) {
  Descriptor at(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int kind = i + 1 < parts.size() ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY;
    at = Descriptor(::openat(at.get(), parts[i].c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | kind));
    if (!at.valid()) return open_error(path);
  }
  return at;
}

Status write_all(const Descriptor& file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

/// Copies `size` bytes, after which the file must end.
Status copy_bytes(const Descriptor& from, const std::string& path, std::int64_t size, const Descriptor& to,
                  const std::string& target) {
  std::vector<char> buffer(std::size_t{1} << 20);
  std::int64_t done = 0;
  while (true) {
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "read");
    if (count == 0) break;
    done += count;
    if (done > size) return malformed(path + ": grows while it is read");
    DGX_CHECK(write_all(to, std::string_view(buffer.data(), static_cast<std::size_t>(count)), target));
  }
  if (done < size) return malformed(path + ": shrinks while it is read");
  if (::fsync(to.get()) != 0) return errno_error(target, "sync");
  return {};
}

}  // namespace

std::string Store::at(const Digest& key_id, std::string_view location) const {
  return fmt::format("{}/{}/{}", path, key_id.hex(), location);
}

Status Store::make_folders(const Digest& key_id, std::string_view location) const {
  if (!exists(path)) return Error{ErrorCode::kMissing, path + ": the store is not there", {}};
  std::string folder = path + "/" + key_id.hex();
  DGX_CHECK(make_folder(folder));
  auto parts = parts_of(location);
  parts.pop_back();
  for (const std::string& part : parts) {
    folder += "/" + part;
    DGX_CHECK(make_folder(folder));
  }
  return {};
}

Status Store::copy(const Digest& key_id, std::string_view location, const std::string& target,
                   std::int64_t max_bytes) const {
  const std::string where = at(key_id, location);
  if (!manifest::is_location(location)) return malformed("location: is no place below the signer's folder");
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return errno_error(path, "open the store");
  std::vector<std::string> parts = parts_of(location);
  parts.insert(parts.begin(), key_id.hex());
  DGX_TRY(const Descriptor file, open_plain(folder.get(), parts, where));
  DGX_TRY(const std::int64_t size, plain_size(file, where));
  if (size > max_bytes) return malformed(fmt::format("{}: {} bytes, at most {} allowed", where, size, max_bytes));
  const Descriptor to(::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!to.valid()) return errno_error(target, "create");
  return copy_bytes(file, where, size, to, target);
}

Status copy_file(const std::string& from, const std::string& target, Clobber clobber) {
  const Descriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return errno_error(from, "open");
  DGX_TRY(const std::int64_t size, plain_size(file, from));
  DGX_TRY(AtomicFile whole, AtomicFile::create(target, clobber));
  const Descriptor to(::open(whole.path().c_str(), O_WRONLY | O_CLOEXEC));
  if (!to.valid()) return errno_error(target, "open");
  DGX_CHECK(copy_bytes(file, from, size, to, target));
  return whole.commit();
}

}  // namespace dgx::jobs
