#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx {

/// Reads a whole file, or standard input if `path` is "-". kMissing if it is not there, kMalformed if it is
/// longer than `max_bytes`, or than 64 MiB where it does not say how long it is (pipes, terminals, devices), kIo
/// otherwise.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

/// Whether an output may replace a file that exists.
enum class Clobber { kRefuse, kReplace };

/// Writes a file so that after a crash at any moment either nothing or all of it is there: temporary file in
/// the same folder, fsync, rename, fsync of the folder. "-" is standard output. `mode` is the permission
/// bits. kCannotCreate if it exists (kRefuse), or the folder is missing or read-only; kIo if the disk is
/// full; the temporary file is removed on every error. A pipe or device is written as it is.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content, Clobber clobber,
                                unsigned mode = 0644);

/// The same for a writer that needs a path of its own (HDF5): writes go to `path()`, commit() makes them the
/// target. An empty file is at path() from the start, so a writer opens it truncating. The destructor removes
/// what was not committed.
class AtomicFile {
 public:
  [[nodiscard]] static Result<AtomicFile> create(const std::string& target, Clobber clobber,
                                                 unsigned mode = 0644);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  [[nodiscard]] const std::string& path() const { return temporary_; }
  /// fsync, rename over the target, fsync of the folder. The file at path() must be closed by its writer.
  [[nodiscard]] Status commit();

 private:
  AtomicFile(std::string target, std::string temporary, Clobber clobber)
      : target_(std::move(target)), temporary_(std::move(temporary)), clobber_(clobber) {}
  std::string target_;
  std::string temporary_;
  Clobber clobber_;
};

/// Appends text to a file that exists, and syncs it. On an error the file is cut to what it was; should that fail, too,
/// a torn end stays that a crash might leave as well: readers expect one.
[[nodiscard]] Status append_text(const std::string& path, std::string_view text);
/// The same for a line, and '\n'.
[[nodiscard]] Status append_line(const std::string& path, std::string_view line);
/// Cuts a file to its first bytes, and syncs it.
[[nodiscard]] Status truncate_file(const std::string& path, std::size_t size_bytes);

/// Writes what can be made again and is checked when it is read: neither atomic nor synced. What has this name
/// is removed first, not written through: it may be a link.
[[nodiscard]] Status write_scratch(const std::string& path, std::span<const std::string_view> parts);
/// Removes a file, not what a link names; one that is not there is fine. Not synced: a crash may bring it back.
[[nodiscard]] Status remove_file(const std::string& path);

/// An advisory exclusive lock (flock) that lasts as long as this object: one writer per run folder, one per
/// ledger.
class FileLock {
 public:
  /// Locks a file or folder that is there. kMissing, kCannotCreate, naming `path`, if another process holds it.
  [[nodiscard]] static Result<FileLock> acquire(const std::string& path);
  /// The same with a file that is there for nothing else, and made if it is not there; never through a link,
  /// which would make it elsewhere: that is kCannotCreate.
  [[nodiscard]] static Result<FileLock> acquire_file(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] static Result<FileLock> take(int descriptor, const std::string& path);
  int descriptor_;
};

[[nodiscard]] Status sync_folder(const std::string& path);
/// Creates one folder (parents must exist) and syncs its name; an existing folder is fine.
[[nodiscard]] Status make_folder(const std::string& path);
[[nodiscard]] bool exists(const std::string& path);
/// A warning, in words, if `path` is a regular file that others than its owner may use, too: of a private key,
/// which `what` calls it. Empty for all else.
[[nodiscard]] std::string warning_of_secret(const std::string& path, std::string_view what);
/// An error for the current errno: ENOENT is kMissing, EACCES, EROFS, EEXIST kCannotCreate, else kIo.
[[nodiscard]] Error errno_error(const std::string& path, std::string_view doing);

}  // namespace dgx
