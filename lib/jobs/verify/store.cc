#include "verify/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "dgx/core/file_system.h"
#include "dgx/core/files.h"
#include "dgx/core/inputs.h"
#include "dgx/manifest/opening.h"

namespace dgx::jobs {
namespace {

constexpr int kOpenLink = ELOOP;  // given by O_NOFOLLOW, open(2)

/// An open file or folder, closed with this object.
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

/// The error of openat() with O_NOFOLLOW: ENOTDIR for a link to a folder, ELOOP for a link to a file, ENXIO
/// for a socket or a device without a driver.
Error open_error(const std::string& path) {
  const int reason = errno;
  if (reason == kOpenLink || reason == ENOTDIR || reason == ENXIO)
    return malformed(path + ": is not a regular file, or is reached through a link");
  Error error = errno_error(path, "open");
  if (reason == EACCES || reason == EPERM) error.code = ErrorCode::kMissing;
  return error;
}

/// The length of a regular file with one name; an error for any other.
Result<std::int64_t> plain_size(const Descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return errno_error(path, "look at");
  if (!S_ISREG(info.st_mode)) return malformed(path + ": is not a regular file");
  if (info.st_nlink > 1) return malformed(path + ": is a hard link: the file has other names");
  return static_cast<std::int64_t>(info.st_size);
}

/// Opens the file at `parts` below `folder`, one part after another and none of them through a link: a path
/// that was checked and then opened by its name could lead elsewhere in between. Does not wait for a pipe's
/// writer.
Result<Descriptor> open_plain(int folder, const std::vector<std::string>& parts, const std::string& path) {
  Descriptor at(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int kind = i + 1 < parts.size() ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY;
    at = Descriptor(::openat(at.get(), parts[i].c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | kind));
    if (!at.valid()) return open_error(path);
  }
  return at;
}

/// Writes all bytes at `at`.
Status write_at(const Descriptor& file, std::string_view bytes, off_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = file_system().pwrite(file.get(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "write");
    if (count == 0) return Error{ErrorCode::kIo, path + ": cannot write: nothing more is taken", {}};
    bytes.remove_prefix(static_cast<std::size_t>(count));
    at += count;
  }
  return {};
}

/// The next data of a file at or after `at`, of 1 to `most` bytes; none if only a hole is left. A file system
/// without holes gives all as data. Holes within the first page count as data, so that every part makes
/// progress, whatever the file's owner does meanwhile.
struct Part {
  off_t at = 0;
  std::size_t bytes = 0;
};
std::optional<Part> next_data(const Descriptor& file, off_t at, off_t size, std::size_t most) {
  constexpr off_t kPage = 4096;
  const off_t data = ::lseek(file.get(), at, SEEK_DATA);
  if (data < 0 && errno == ENXIO) return std::nullopt;
  const off_t begin = std::max(at, data);
  if (begin >= size) return std::nullopt;
  const off_t hole = ::lseek(file.get(), begin, SEEK_HOLE);
  const off_t end = hole < 0 ? size : std::max(hole, begin + kPage);
  return Part{begin, std::min(static_cast<std::size_t>(std::min(end, size) - begin), most)};
}

/// Copies `size` bytes, after which the file must end. Holes stay holes, so that a file costs no more time
/// and space than its owner spent on it.
Status copy_bytes(const Descriptor& from, const std::string& path, std::int64_t size, const Descriptor& to,
                  const std::string& target) {
  std::vector<char> buffer(std::size_t{1} << 20);
  for (off_t at = 0; const auto part = next_data(from, at, size, buffer.size());) {
    const ssize_t count = ::pread(from.get(), buffer.data(), part->bytes, part->at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "read");
    if (count == 0) break;
    DGX_CHECK(
        write_at(to, std::string_view(buffer.data(), static_cast<std::size_t>(count)), part->at, target));
    at = part->at + count;
  }
  DGX_TRY(const std::int64_t now, plain_size(from, path));
  if (now != size)
    return malformed(fmt::format("{}: {} while it is read", path, now > size ? "grows" : "shrinks"));
  if (file_system().ftruncate(to.get(), size) != 0) return errno_error(target, "lengthen");
  if (file_system().fsync(to.get()) != 0) return errno_error(target, "sync");
  return {};
}

/// A stranger's file, open for reading, and its length.
struct Opened {
  Descriptor file;
  std::int64_t size = 0;
};

/// Opens a stranger's file; `where` names it in messages. kMalformed if the location could lead out of their
/// folder, or to anything but a regular file with one name: a second name could be somebody else's file.
Result<Opened> open_strangers(const std::string& store, const Digest& key_id, std::string_view location,
                              const std::string& where) {
  if (!manifest::is_place(location)) return malformed("location: is not a path below the signer's folder");
  const Descriptor folder(::open(store.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return errno_error(store, "open the store");
  std::vector<std::string> parts = parts_of(location);
  parts.insert(parts.begin(), key_id.hex());
  DGX_TRY(Descriptor file, open_plain(folder.get(), parts, where));
  DGX_TRY(const std::int64_t size, plain_size(file, where));
  return Opened{std::move(file), size};
}

}  // namespace

std::string Store::at(const Digest& key_id, std::string_view location) const {
  return fmt::format("{}/{}/{}", path, key_id.hex(), location);
}

Status Store::make_folders(const Digest& key_id, std::string_view location) const {
  if (!exists(path)) return Error{ErrorCode::kMissing, path + ": the store does not exist", {}};
  Descriptor at(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return errno_error(path, "open the store");
  auto parts = parts_of(location);
  parts.pop_back();
  parts.insert(parts.begin(), key_id.hex());
  std::string folder = path;
  for (const std::string& part : parts) {
    folder += "/" + part;
    DGX_CHECK(make_folder(folder));
    at = Descriptor(::openat(at.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!at.valid())
      return Error{ErrorCode::kCannotCreate, folder + ": is a link, not a folder of the store",
                   "someone else made it: ask the store's operator to remove it"};
  }
  return {};
}

std::optional<std::int64_t> Store::size(const Digest& key_id, std::string_view location) const {
  const auto found = open_strangers(path, key_id, location, at(key_id, location));
  if (!found.ok()) return std::nullopt;
  return found->size;
}

Status Store::copy(const Digest& key_id, std::string_view location, const std::string& target,
                   std::int64_t max_bytes) const {
  const std::string where = at(key_id, location);
  DGX_TRY(const Opened from, open_strangers(path, key_id, location, where));
  if (from.size > max_bytes)
    return malformed(fmt::format("{}: {} bytes, at most {} allowed", where, from.size, max_bytes));
  const Descriptor to(
      file_system().open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!to.valid()) return errno_error(target, "create");
  return copy_bytes(from.file, where, from.size, to, target);
}

Status copy_file(const std::string& from, const std::string& target, Clobber clobber) {
  const Descriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return errno_error(from, "open");
  note_input(file.get());
  DGX_TRY(const std::int64_t size, plain_size(file, from));
  DGX_TRY(AtomicFile whole, AtomicFile::create(target, clobber));
  const Descriptor to(::open(whole.path().c_str(), O_WRONLY | O_CLOEXEC));
  if (!to.valid()) return errno_error(target, "open");
  DGX_CHECK(copy_bytes(file, from, size, to, target));
  return whole.commit();
}

}  // namespace dgx::jobs
