#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
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

/// Reads the first `most_bytes` of a regular file, or all of one that is shorter. Errors of read_file();
/// kMalformed for anything but a regular file.
[[nodiscard]] Result<std::string> read_start(const std::string& path, std::size_t most_bytes);

/// The choice what an output does to an existing file.
enum class Clobber {
  kRefuse,    ///< the output is refused
  kReplace,   ///< replaces the file: of files that the program itself keeps
  kForce,     ///< replaces the file unless this process has read it (inputs.h): what --force asks for
  kKeepSame,  ///< the output is refused unless the file has its bytes already, as after a call that was
              ///< killed between two outputs
};

/// A file that has its name when it is complete, and not before: it is written under a temporary name in the
/// target's folder, `.NAME.PROCESS.COUNT.tmp`, and commit() makes that the target by fsync, rename and fsync
/// of the folder. After a crash at any moment the target is whole, or as it was before.
///
/// The temporary file exists from create() on. A job that computes for long creates its outputs first, so
/// that a missing or read-only folder, a full file system or a file that may not be replaced ends it at once
/// and not after the work. Nothing is locked: of two processes with the same target, the first to commit gets
/// it, and the other is refused or, with kReplace or kForce, replaces it.
///
/// The destructor removes what was not committed, and remove_temporaries() does if a signal ends the process.
/// After SIGKILL or a crash of the machine the temporary file stays.
class AtomicFile {
 public:
  /// kUsage for "-", and for an input (kForce); kCannotCreate if the target exists (kRefuse), is a folder,
  /// device or pipe, or its folder is missing or read-only; kIo if the file system is full.
  [[nodiscard]] static Result<AtomicFile> create(const std::string& target, Clobber clobber,
                                                 unsigned mode = 0644);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  [[nodiscard]] const std::string& target() const { return target_; }
  /// The temporary file. It is empty; a writer opens it truncating, and closes it before commit().
  [[nodiscard]] const std::string& path() const { return temporary_; }
  /// Gives the file its name. kCannotCreate if the target has come to exist meanwhile, unless it may be
  /// replaced; kUsage if it has been read meanwhile (kForce); kIo.
  [[nodiscard]] Status commit();

 private:
  AtomicFile(std::string target, std::string temporary, std::size_t slot, Clobber clobber);
  std::string target_;
  std::string temporary_;
  Clobber clobber_;
  std::size_t slot_;  ///< in the table of remove_temporaries()
};

/// Removes the temporary files of all AtomicFiles of this process: for the handler of a signal that ends it.
/// Async-signal-safe.
void remove_temporaries() noexcept;

/// An output of text or bytes that is claimed before the work and written after it: an AtomicFile, or a
/// stream ("-" for standard output, a pipe, terminal or device), which is opened only to be written.
class Output {
 public:
  /// Errors of AtomicFile::create(); a stream has none.
  [[nodiscard]] static Result<Output> claim(const std::string& path, Clobber clobber, unsigned mode = 0644);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// kUsage if the file there has been read since this output was claimed (kForce): write() would say so,
  /// but after the work.
  [[nodiscard]] Status check() const;
  /// Writes the whole content and commits it; to be called once. kIo if the disk is full; kCannotCreate as
  /// AtomicFile::commit(). With kKeepSame, a file that has this content already is left as it is.
  [[nodiscard]] Status write(std::string_view content);

 private:
  Output(std::string path, Clobber clobber, std::optional<AtomicFile> file)
      : path_(std::move(path)), clobber_(clobber), file_(std::move(file)) {}
  std::string path_;
  Clobber clobber_;
  std::optional<AtomicFile> file_;  ///< nullopt: a stream
};

/// Claims an output and writes it at once. `mode` is the permission bits.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content, Clobber clobber,
                                unsigned mode = 0644);

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
/// True if two paths lead to one existing regular file, by links or other spellings.
[[nodiscard]] bool is_same_file(const std::string& a, const std::string& b);
/// A warning if `path` is a regular file that others than its owner can use; `what` is its name in the
/// warning, such as "private key". Empty otherwise.
[[nodiscard]] std::string warning_of_secret(const std::string& path, std::string_view what);
/// An error for the current errno: ENOENT is kMissing; EACCES, EROFS and EEXIST are kCannotCreate; all others
/// are kIo.
[[nodiscard]] Error errno_error(const std::string& path, std::string_view doing);

}  // namespace dgx
