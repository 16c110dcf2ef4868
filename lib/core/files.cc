#include "dgx/core/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dgx/core/file_system.h"
#include "dgx/core/inputs.h"

namespace dgx {
namespace {

/// A descriptor, closed on every way out. close() may report a late write error, so writers call it
/// themselves.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }
  bool close() {
    if (value_ < 0) return true;
    return file_system().close(std::exchange(value_, -1)) == 0;
  }

 private:
  int value_;
};

/// Opens a file that is to be written or synced.
Descriptor open_to_write(const std::string& path, int flags, unsigned mode = 0) {
  return Descriptor(file_system().open(path.c_str(), flags | O_CLOEXEC, mode));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// The error of a failed creation: a missing folder means an output that cannot be created, not a missing
/// input.
Error creation_error(const std::string& path) {
  const int reason = errno;
  Error error = errno_error(path, "create");
  if (reason == ENOENT || reason == ENOTDIR || reason == EISDIR || reason == EPERM)
    error.code = ErrorCode::kCannotCreate;
  if (reason == ENOENT) error.hint = fmt::format("create the folder {} first", folder_of(path));
  return error;
}

/// The error of an input that cannot be opened: EACCES does not mean an output that cannot be created.
Error input_error(const std::string& path) {
  Error error = errno_error(path, "open");
  if (error.code == ErrorCode::kCannotCreate) error.code = ErrorCode::kIo;
  return error;
}

Error exists_error(const std::string& path) {
  return {ErrorCode::kCannotCreate, fmt::format("{}: already exists", path), "use --force to replace it"};
}

/// Refuses to replace a file that this process has read.
Status check_unread(const std::string& path, Clobber clobber) {
  if (clobber != Clobber::kForce || !is_input(path)) return {};
  return usage_error(path + ": is a file that the command reads, and is not replaced", "name another file");
}

/// True for pipes, terminals and devices. They are written directly: there is nothing to replace, and a
/// rename would remove them.
bool is_stream(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// The paths of the temporary files that exist, as copies made by strdup(). A slot belongs to the AtomicFile
/// that filled it; only remove_temporaries() also empties it, from a signal handler on any thread.
std::array<std::atomic<const char*>, 64> g_temporaries{};
constexpr std::size_t kNoSlot = ~std::size_t{0};

/// Takes a slot for a path; kNoSlot if all are taken, so that a signal leaves the file.
std::size_t note_temporary(const std::string& path) {
  char* const copy = ::strdup(path.c_str());
  for (std::size_t slot = 0; copy != nullptr && slot < g_temporaries.size(); ++slot) {
    const char* empty = nullptr;
    if (g_temporaries[slot].compare_exchange_strong(empty, copy)) return slot;
  }
  std::free(copy);
  return kNoSlot;
}

void forget_temporary(std::size_t slot) {
  if (slot != kNoSlot) std::free(const_cast<char*>(g_temporaries[slot].exchange(nullptr)));
}

Status write_all(int descriptor, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t count = file_system().write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "write");
    // A device may do that for ever.
    if (count == 0) return Error{ErrorCode::kIo, path + ": cannot write: nothing more is taken", {}};
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

/// The limit for inputs of unknown length: pipes, terminals, devices. /dev/zero has no end.
constexpr std::size_t kMaxStreamBytes = std::size_t{64} << 20;

Result<std::string> read_all(int descriptor, const std::string& path, std::size_t max_bytes) {
  std::string out;
  struct stat info {};
  const bool sized = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  if (sized && static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    return malformed(fmt::format("{}: {} bytes, at most {} allowed", path, info.st_size, max_bytes));
  }
  const std::size_t most =
      std::min(max_bytes, std::max(kMaxStreamBytes, sized ? static_cast<std::size_t>(info.st_size) : 0));
  std::size_t used = 0;
  out.resize(sized ? static_cast<std::size_t>(info.st_size) + 1 : 65536);
  while (true) {
    if (used == out.size()) out.resize(out.size() * 2);
    const ssize_t count = ::read(descriptor, out.data() + used, out.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "read");
    if (count == 0) break;
    used += static_cast<std::size_t>(count);
    if (used > most) {
      return malformed(fmt::format("{}: more than {} bytes", path, most),
                       most < max_bytes ? "its length is unknown: save it to a file and name that file" : "");
    }
  }
  out.resize(used);
  return out;
}

Status write_stream(const std::string& path, std::string_view content) {
  if (path == "-") return write_all(STDOUT_FILENO, content, "standard output");
  Descriptor file = open_to_write(path, O_WRONLY);
  if (!file.valid()) return errno_error(path, "open");
  DGX_CHECK(write_all(file.get(), content, path));
  if (!file.close()) return errno_error(path, "write");
  return {};
}

/// A hidden name in the folder of `target`. The counter keeps threads apart, and skips files that a killed
/// process with the same id left.
std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> counter{0};
  const std::string name = std::filesystem::path(target).filename().string().substr(0, 200);
  return fmt::format("{}/.{}.{}.{}.tmp", folder_of(target), name, ::getpid(), counter++);
}

struct Temporary {
  std::string path;
  std::size_t slot;
};

/// Creates an empty temporary file for a target. It is noted before it exists, so that no signal leaves it.
Result<Temporary> create_temporary(const std::string& target, unsigned mode) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string name = temporary_name(target);
    const std::size_t slot = note_temporary(name);
    const Descriptor file = open_to_write(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (file.valid()) return Temporary{name, slot};
    const int error = errno;
    forget_temporary(slot);
    errno = error;
    if (error != EEXIST) return creation_error(target);
  }
  return creation_error(target);
}

/// Renames unless `to` exists. Not every file system has RENAME_NOREPLACE (NFS, Lustre) or hard links; the
/// last resort leaves a short window.
Status rename_no_replace(const std::string& from, const std::string& to) {
  FileSystem& system = file_system();
  if (system.rename_no_replace(from.c_str(), to.c_str()) == 0) return {};
  if (errno == EEXIST) return exists_error(to);
  if (errno != EINVAL && errno != ENOSYS) return creation_error(to);
  if (system.link(from.c_str(), to.c_str()) == 0) {
    system.unlink(from.c_str());
    return {};
  }
  if (errno == EEXIST || exists(to)) return exists_error(to);
  if (system.rename(from.c_str(), to.c_str()) != 0) return creation_error(to);
  return {};
}

Status sync(const Descriptor& file, const std::string& path) {
  if (file_system().fsync(file.get()) != 0) return errno_error(path, "sync");
  return {};
}

Status sync_file(const std::string& path) {
  const Descriptor file = open_to_write(path, O_RDONLY | O_NOFOLLOW);
  if (!file.valid()) return errno_error(path, "open");
  return sync(file, path);
}

}  // namespace

Error errno_error(const std::string& path, std::string_view doing) {
  const int reason = errno;
  ErrorCode code = ErrorCode::kIo;
  if (reason == ENOENT) code = ErrorCode::kMissing;
  if (reason == EACCES || reason == EROFS || reason == EEXIST) code = ErrorCode::kCannotCreate;
  std::string why = std::strerror(reason);
  if (!why.empty() && why[0] >= 'A' && why[0] <= 'Z' && why.substr(0, 3) != "RPC") why[0] += 'a' - 'A';
  return {code, fmt::format("{}: cannot {}: {}", path, doing, why), {}};
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  if (path == "-") {
    note_input(STDIN_FILENO);
    return read_all(STDIN_FILENO, "standard input", max_bytes);
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return input_error(path);
  note_input(file.get());
  return read_all(file.get(), path, max_bytes);
}

Result<std::string> read_start(const std::string& path, std::size_t most_bytes) {
  struct stat info {};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return input_error(path);
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return malformed(path + ": is not a file");
  note_input(file.get());
  std::string out(std::min(most_bytes, static_cast<std::size_t>(info.st_size)), '\0');
  std::size_t used = 0;
  while (used < out.size()) {
    const ssize_t count = ::read(file.get(), out.data() + used, out.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(path, "read");
    if (count == 0) break;
    used += static_cast<std::size_t>(count);
  }
  out.resize(used);
  return out;
}

Result<AtomicFile> AtomicFile::create(const std::string& target, Clobber clobber, unsigned mode) {
  if (target == "-") return usage_error("this output cannot go to standard output", "name a file");
  if (std::filesystem::path(target).filename().empty()) {
    return Error{ErrorCode::kCannotCreate, fmt::format("{}: cannot create: no file name", target), {}};
  }
  if (clobber == Clobber::kRefuse && exists(target)) return exists_error(target);
  DGX_CHECK(check_unread(target, clobber));
  if (is_stream(target))
    return Error{ErrorCode::kCannotCreate, target + ": cannot create: is a device or pipe", "name a file"};
  if (is_folder(target)) {
    errno = EISDIR;
    return creation_error(target);
  }
  DGX_TRY(Temporary temporary, create_temporary(target, mode));
  return AtomicFile(target, std::move(temporary.path), temporary.slot, clobber);
}

AtomicFile::AtomicFile(std::string target, std::string temporary, std::size_t slot, Clobber clobber)
    : target_(std::move(target)), temporary_(std::move(temporary)), clobber_(clobber), slot_(slot) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      clobber_(other.clobber_),
      slot_(std::exchange(other.slot_, kNoSlot)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) file_system().unlink(temporary_.c_str());
  forget_temporary(slot_);
}

Status AtomicFile::commit() {
  DGX_CHECK(sync_file(temporary_));
  DGX_CHECK(check_unread(target_, clobber_));
  if (clobber_ != Clobber::kReplace && clobber_ != Clobber::kForce) {
    DGX_CHECK(rename_no_replace(temporary_, target_));
  } else if (file_system().rename(temporary_.c_str(), target_.c_str()) != 0) {
    return creation_error(target_);
  }
  temporary_.clear();
  return sync_folder(folder_of(target_));
}

void remove_temporaries() noexcept {
  for (std::atomic<const char*>& slot : g_temporaries) {
    const char* const path = slot.exchange(nullptr);
    if (path != nullptr) ::unlink(path);  // not freed: free() is not async-signal-safe, and the process ends
  }
}

Result<Output> Output::claim(const std::string& path, Clobber clobber, unsigned mode) {
  if (path == "-" || is_stream(path)) return Output(path, clobber, std::nullopt);
  DGX_TRY(AtomicFile file, AtomicFile::create(path, clobber, mode));
  return Output(path, clobber, std::move(file));
}

Status Output::check() const { return file_ ? check_unread(path_, clobber_) : Status(); }

Status Output::write(std::string_view content) {
  if (!file_) return write_stream(path_, content);
  if (clobber_ == Clobber::kKeepSame && exists(path_)) {
    const auto found = read_file(path_, content.size());
    if (found.ok() && *found == content) return {};
  }
  Descriptor file = open_to_write(file_->path(), O_WRONLY | O_NOFOLLOW);
  if (!file.valid()) return errno_error(path_, "open");
  DGX_CHECK(write_all(file.get(), content, path_));
  if (!file.close()) return errno_error(path_, "write");
  return file_->commit();
}

Status write_file(const std::string& path, std::string_view content, Clobber clobber, unsigned mode) {
  DGX_TRY(Output output, Output::claim(path, clobber, mode));
  return output.write(content);
}

Status append_text(const std::string& path, std::string_view text) {
  const Descriptor file = open_to_write(path, O_WRONLY | O_APPEND);
  if (!file.valid()) return errno_error(path, "open");
  const off_t before = ::lseek(file.get(), 0, SEEK_END);
  Status status = write_all(file.get(), text, path);
  if (status.ok()) status = sync(file, path);
  if (!status.ok()) static_cast<void>(file_system().ftruncate(file.get(), before));
  return status;
}

Status append_line(const std::string& path, std::string_view line) {
  return append_text(path, std::string(line) + "\n");
}

Status truncate_file(const std::string& path, std::size_t size_bytes) {
  const Descriptor file = open_to_write(path, O_WRONLY);
  if (!file.valid()) return errno_error(path, "open");
  if (file_system().ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0)
    return errno_error(path, "truncate");
  return sync(file, path);
}

Result<GrowingFile> GrowingFile::open(const std::string& path, std::size_t size_bytes) {
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  const int descriptor = file_system().open(path.c_str(), flags, 0644);
  if (descriptor < 0) {
    if (errno != ELOOP) return creation_error(path);
    return Error{ErrorCode::kCannotCreate, fmt::format("{}: is a symbolic link", path),
                 "remove it, if you do not know why it is there"};
  }
  GrowingFile file(path, descriptor);
  if (file_system().ftruncate(descriptor, static_cast<off_t>(size_bytes)) != 0)
    return errno_error(path, "truncate");
  return file;
}

GrowingFile::GrowingFile(GrowingFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) file_system().close(descriptor_);
}

Status GrowingFile::append(std::string_view text) { return write_all(descriptor_, text, path_); }

Status write_scratch(const std::string& path, std::span<const std::string_view> parts) {
  if (file_system().unlink(path.c_str()) != 0 && errno != ENOENT) return creation_error(path);
  Descriptor file = open_to_write(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  if (!file.valid()) return creation_error(path);
  for (const std::string_view part : parts) DGX_CHECK(write_all(file.get(), part, path));
  if (!file.close()) return errno_error(path, "write");
  return {};
}

Status remove_file(const std::string& path) {
  if (file_system().unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return errno_error(path, "remove");
}

Result<FileLock> FileLock::take(int descriptor, const std::string& path, const LockWait& wait) {
  // Asked for again and again, since flock() itself neither waits for a time nor looks at a flag.
  constexpr auto kPause = std::chrono::milliseconds(20);
  FileLock lock(descriptor);
  const auto begun = std::chrono::steady_clock::now();
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return errno_error(path, "lock");
    const std::string busy = fmt::format("{}: another process is writing here", path);
    if (wait.stop != nullptr && wait.stop->requested()) return Error{ErrorCode::kInterrupted, busy, {}};
    if (std::chrono::steady_clock::now() - begun >= wait.most)
      return Error{ErrorCode::kLocked, busy, "--wait waits until it ends"};
    std::this_thread::sleep_for(kPause);
  }
  return lock;
}

Result<FileLock> FileLock::acquire(const std::string& path, const LockWait& wait) {
  // Opened for writing where possible, as NFS requires for a lock.
  int descriptor = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 && errno == EISDIR) descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno_error(path, "open");
  return take(descriptor, path, wait);
}

Result<FileLock> FileLock::acquire_file(const std::string& path, const LockWait& wait) {
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int descriptor = file_system().open(path.c_str(), flags, 0644);
  if (descriptor >= 0) return take(descriptor, path, wait);
  if (errno != ELOOP) return creation_error(path);
  return Error{ErrorCode::kCannotCreate, fmt::format("{}: is a symbolic link, not a lock file", path),
               "remove it unless you know why it is there"};
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status sync_folder(const std::string& path) {
  const Descriptor folder = open_to_write(path, O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) return errno_error(path, "open");
  // EINVAL: this file system cannot sync folders.
  if (file_system().fsync(folder.get()) != 0 && errno != EINVAL) return errno_error(path, "sync");
  return {};
}

Status make_folder(const std::string& path) {
  struct stat info {};
  if (file_system().mkdir(path.c_str(), 0755) == 0) return sync_folder(folder_of(path));
  const int reason = errno;
  const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  errno = reason;
  if (reason != EEXIST || !is_folder) return creation_error(path);
  // A killed call may have created it without syncing its name. A process that may not read the parent did
  // not create it.
  Status synced = sync_folder(folder_of(path));
  return synced.ok() || synced.error().code == ErrorCode::kCannotCreate ? Status() : std::move(synced);
}

std::string warning_of_secret(const std::string& path, std::string_view what) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || (info.st_mode & 077U) == 0) return {};
  return fmt::format("{}: others can use this {} (mode {:04o}); run chmod 600 {}", path, what,
                     info.st_mode & 07777U, path);
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && S_ISREG(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace dgx
