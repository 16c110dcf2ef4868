#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/stop.h"

namespace dgx {

/// Reads a whole file, or standard input if `path` is "-". kMissing if it is not there; kMalformed if it is
/// longer than `max_bytes`, or than 64 MiB where it has no known length (pipes, terminals, devices); kIo
/// otherwise.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

/// The choice whether an output may replace an existing file.
enum class Clobber { kRefuse, kReplace };

/// Writes a file so that after a crash at any moment either nothing or all of it is there: temporary file in
/// the same folder, fsync, rename, fsync of the folder. "-" is standard output. `mode` is the permission
/// bits. kCannotCreate if it exists (kRefuse), or the folder is missing or read-only; kIo if the disk is
/// full. The temporary file is removed on every error. A pipe or device is written directly.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content, Clobber clobber,
                                unsigned mode = 0644);

/// kCannotCreate, before any work is done, if `path` exists and may not be replaced.
[[nodiscard]] Status refuse_existing(const std::string& path, Clobber clobber);

/// write_file() for a writer that needs a path of its own (HDF5): it writes to `path()`, and commit() makes
/// that the target. An empty file is at path() from the start, which the writer opens truncating. The
/// destructor removes what was not committed.
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

/// Appends text to an existing file, and syncs it. On an error the file is cut back to its old length; if
/// that fails too, a torn end stays as after a crash, which readers expect.
[[nodiscard]] Status append_text(const std::string& path, std::string_view text);
/// append_text() of a line and '\n'.
[[nodiscard]] Status append_line(const std::string& path, std::string_view line);
/// Cuts a file to its first `size_bytes` bytes, and syncs it.
[[nodiscard]] Status truncate_file(const std::string& path, std::size_t size_bytes);

/// A text file that others read while it grows. It is never synced: a crash of the machine may lose its end,
/// and a killed process may leave half a line there.
class GrowingFile {
 public:
  /// Opens the file, creating it if it does not exist, and cuts it to its first `size_bytes` bytes.
  /// kCannotCreate for a symbolic link, which would lead elsewhere, and as write_file(); kIo.
  [[nodiscard]] static Result<GrowingFile> open(const std::string& path, std::size_t size_bytes);
  GrowingFile(GrowingFile&& other) noexcept;
  GrowingFile& operator=(GrowingFile&&) = delete;
  ~GrowingFile();

  /// Appends the text, which readers see at once. kIo; part of the text may then be there.
  [[nodiscard]] Status append(std::string_view text);

 private:
  GrowingFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

/// Writes a file that can be made again and is checked when it is read: neither atomically nor synced. An
/// existing file of this name is removed first, not written through, since it may be a link.
[[nodiscard]] Status write_scratch(const std::string& path, std::span<const std::string_view> parts);
/// Removes a file; of a link, the link itself. A missing file is fine. Not synced: a crash may bring it back.
[[nodiscard]] Status remove_file(const std::string& path);

/// The time to wait for a lock that another process holds, by default none. `stop`, if not null, ends the
/// wait.
struct LockWait {
  std::chrono::milliseconds most{0};
  const StopFlag* stop = nullptr;
};

/// An advisory exclusive lock (flock) that lasts as long as this object: one writer per run folder, one per
/// ledger.
class FileLock {
 public:
  /// Locks an existing file or folder. kMissing if it is not there; kLocked, naming `path`, if another
  /// process still holds the lock after `wait`; kInterrupted if that was ended.
  [[nodiscard]] static Result<FileLock> acquire(const std::string& path, const LockWait& wait = {});
  /// Locks a file that serves as a lock and nothing else, and creates it if it is not there. kLocked as
  /// acquire(); kCannotCreate for a link, which would create it elsewhere.
  [[nodiscard]] static Result<FileLock> acquire_file(const std::string& path, const LockWait& wait = {});
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] static Result<FileLock> take(int descriptor, const std::string& path, const LockWait& wait);
  int descriptor_;
};

[[nodiscard]] Status sync_folder(const std::string& path);
/// Creates one folder (parents must exist) and syncs its name; an existing folder is fine.
[[nodiscard]] Status make_folder(const std::string& path);
[[nodiscard]] bool exists(const std::string& path);
/// A warning if `path` is a regular file that others than its owner can use; `what` is its name in the
/// warning, such as "private key". Empty otherwise.
[[nodiscard]] std::string warning_of_secret(const std::string& path, std::string_view what);
/// An error for the current errno: ENOENT is kMissing; EACCES, EROFS and EEXIST are kCannotCreate; all others
/// are kIo.
[[nodiscard]] Error errno_error(const std::string& path, std::string_view doing);

}  // namespace dgx
