#include "dgx/core/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "dgx/core/file_system.h"
#include "dgx/core/inputs.h"

namespace dgx {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "dgx-files-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] long count() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  std::string path_;
};

constexpr std::size_t kPlenty = 1 << 20;

TEST_CASE("what is written is read back, and nothing else is left in the folder") {
  const TemporaryFolder folder;
  const std::string content("a\0b\n", 4);
  REQUIRE(write_file(folder / "x", content, Clobber::kRefuse).ok());
  CHECK(*read_file(folder / "x", kPlenty) == content);
  CHECK(folder.count() == 1);
}

TEST_CASE("a growing file keeps what it is told to, and shows at once what is appended") {
  const TemporaryFolder folder;
  {
    auto file = GrowingFile::open(folder / "x", 0);
    REQUIRE(file.ok());
    REQUIRE(file->append("one\ntwo\n").ok());
    CHECK(*read_file(folder / "x", kPlenty) == "one\ntwo\n");
  }
  auto file = GrowingFile::open(folder / "x", 4);
  REQUIRE(file.ok());
  REQUIRE(file->append("2\n").ok());
  CHECK(*read_file(folder / "x", kPlenty) == "one\n2\n");
}

TEST_CASE("a growing file does not follow a link") {
  const TemporaryFolder folder;
  fs::create_symlink("elsewhere", folder / "x");
  const auto file = GrowingFile::open(folder / "x", 0);
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().code == ErrorCode::kCannotCreate);
  CHECK_FALSE(exists(folder / "elsewhere"));
}

TEST_CASE("an empty file and one of exactly the limit can be read, one byte more cannot") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "empty", "", Clobber::kRefuse).ok());
  CHECK(read_file(folder / "empty", 0)->empty());
  REQUIRE(write_file(folder / "x", "12345", Clobber::kRefuse).ok());
  CHECK(read_file(folder / "x", 5).ok());
  CHECK(read_file(folder / "x", 4).error().code == ErrorCode::kMalformed);
  CHECK(read_file("/dev/zero", 100000).error().code == ErrorCode::kMalformed);
}

TEST_CASE("64 MiB of a pipe are read, and not a byte more, whatever is allowed") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  constexpr std::size_t kMost = std::size_t{64} << 20;
  for (const std::size_t size : {kMost, kMost + 1}) {
    std::thread writer([&] {
      const std::string content(size, 'x');
      const int end = ::open((folder / "pipe").c_str(), O_WRONLY);
      for (std::size_t done = 0; done < size;) {
        const ssize_t count = ::write(end, content.data() + done, size - done);
        if (count <= 0) break;
        done += static_cast<std::size_t>(count);
      }
      ::close(end);
    });
    const auto read = read_file(folder / "pipe", kMost * 2);
    writer.join();
    CHECK(read.ok() == (size == kMost));
    if (read.ok()) CHECK(read->size() == size);
    if (!read.ok()) CHECK(read.error().code == ErrorCode::kMalformed);
  }
}

TEST_CASE("a missing input is missing, and a folder is no file") {
  const TemporaryFolder folder;
  const auto missing = read_file(folder / "none", kPlenty);
  CHECK(missing.error().code == ErrorCode::kMissing);
  CHECK(missing.error().message == folder / "none" + ": cannot open: no such file or directory");
  CHECK(read_file(folder.path(), kPlenty).error().code == ErrorCode::kIo);
}

TEST_CASE("an output that exists is kept unless replacing was asked for") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "x", "old", Clobber::kRefuse).ok());
  CHECK(write_file(folder / "x", "new", Clobber::kRefuse).error().code == ErrorCode::kCannotCreate);
  CHECK(*read_file(folder / "x", kPlenty) == "old");
  // Refused before the content is computed, not after.
  CHECK(Output::claim(folder / "x", Clobber::kRefuse).error().code == ErrorCode::kCannotCreate);
  CHECK(Output::claim(folder / "x", Clobber::kReplace).ok());
  CHECK(Output::claim(folder / "y", Clobber::kRefuse).ok());
  CHECK(AtomicFile::create(folder / "x", Clobber::kRefuse).error().code == ErrorCode::kCannotCreate);
  REQUIRE(write_file(folder / "x", "new", Clobber::kReplace).ok());
  CHECK(*read_file(folder / "x", kPlenty) == "new");
  CHECK(folder.count() == 1);
}

TEST_CASE("what was asked for by force replaces no file that was read") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "x", "old", Clobber::kRefuse).ok());
  REQUIRE(write_file(folder / "y", "old", Clobber::kRefuse).ok());
  std::filesystem::create_symlink(folder / "x", folder / "link");
  auto claimed = Output::claim(folder / "x", Clobber::kForce);
  CHECK(*read_file(folder / "x", kPlenty) == "old");
  CHECK(claimed->write("new").error().code == ErrorCode::kUsage);
  CHECK(Output::claim(folder / "x", Clobber::kForce).error().code == ErrorCode::kUsage);
  CHECK(Output::claim(folder / "link", Clobber::kForce).error().code == ErrorCode::kUsage);
  CHECK(read_start(folder / "y", 1).ok());
  CHECK(Output::claim(folder / "y", Clobber::kForce).error().code == ErrorCode::kUsage);
  CHECK(*read_file(folder / "x", kPlenty) == "old");
  CHECK(write_file(folder / "x", "ours", Clobber::kReplace).ok());  // a file that the program keeps
}

TEST_CASE("a file that a search passed over may be replaced, and one that it named may not") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "x", "old", Clobber::kRefuse).ok());
  {
    const Search search;
    CHECK(*read_file(folder / "x", kPlenty) == "old");
  }
  CHECK(write_file(folder / "x", "new", Clobber::kForce).ok());
  {
    const Search search;
    note_input(folder / "x");
  }
  CHECK(write_file(folder / "x", "newer", Clobber::kForce).error().code == ErrorCode::kUsage);
  CHECK(*read_file(folder / "x", kPlenty) == "new");
}

TEST_CASE("an output that appears while we write is kept") {
  const TemporaryFolder folder;
  auto file = AtomicFile::create(folder / "x", Clobber::kRefuse);
  REQUIRE(file.ok());
  std::ofstream(folder / "x") << "theirs";
  CHECK(file->commit().error().code == ErrorCode::kCannotCreate);
  CHECK(*read_file(folder / "x", kPlenty) == "theirs");
}

TEST_CASE("an atomic file is not there before commit, and gone without it") {
  const TemporaryFolder folder;
  {
    auto file = AtomicFile::create(folder / "x", Clobber::kRefuse);
    REQUIRE(file.ok());
    CHECK(fs::path(file->path()).parent_path() == folder.path());
    CHECK(fs::path(file->path()).filename().string().starts_with(".x."));
    std::ofstream(file->path()) << "half";
    CHECK_FALSE(exists(folder / "x"));
    CHECK(folder.count() == 1);
    const AtomicFile moved = std::move(*file);
    CHECK(exists(moved.path()));
  }
  CHECK(folder.count() == 0);
}

TEST_CASE("what makes an output impossible is found when it is claimed, not when it is written") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  CHECK(Output::claim(folder / "none/x", Clobber::kReplace).error().code == ErrorCode::kCannotCreate);
  CHECK(Output::claim(folder / "folder", Clobber::kRefuse).error().code == ErrorCode::kCannotCreate);
  CHECK(Output::claim(folder / "folder", Clobber::kReplace).error().code == ErrorCode::kCannotCreate);
  CHECK(AtomicFile::create("/dev/null", Clobber::kReplace).error().code == ErrorCode::kCannotCreate);
  CHECK(fs::is_empty(folder / "folder"));
  CHECK(folder.count() == 1);
  // Streams are not claimed.
  auto null = Output::claim("/dev/null", Clobber::kRefuse);
  REQUIRE(null.ok());
  CHECK(null->write("x").ok());
  CHECK(Output::claim("/dev/full", Clobber::kRefuse)->write("x").error().code == ErrorCode::kIo);
}

TEST_CASE("an output that exists with the same bytes is as good as written") {
  const TemporaryFolder folder;
  for (const char* const there : {"", "same", "other"}) {
    if (*there != '\0') REQUIRE(write_file(folder / "x", there, Clobber::kReplace).ok());
    auto output = Output::claim(folder / "x", Clobber::kKeepSame);
    REQUIRE(output.ok());
    const Status written = output->write("same");
    CHECK(written.ok() == (std::string(there) != "other"));
    if (!written.ok()) CHECK(written.error().code == ErrorCode::kCannotCreate);
    CHECK(*read_file(folder / "x", kPlenty) == (written.ok() ? "same" : "other"));
  }
  CHECK(folder.count() == 1);
}

TEST_CASE("a claimed output goes when a signal ends the process, and a written one stays") {
  const TemporaryFolder folder;
  auto written = Output::claim(folder / "x", Clobber::kRefuse);
  const auto waiting = Output::claim(folder / "y", Clobber::kRefuse);
  { const auto dropped = Output::claim(folder / "z", Clobber::kRefuse); }
  REQUIRE((written.ok() && waiting.ok() && written->write("x").ok()));
  CHECK(folder.count() == 2);
  const pid_t child = ::fork();  // which ends by it, as in the signal's handler
  if (child == 0) {
    remove_temporaries();
    ::_exit(0);
  }
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(folder.count() == 1);
  CHECK(*read_file(folder / "x", kPlenty) == "x");
}

TEST_CASE("two names of one file are the same file") {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << "a";
  std::ofstream(folder / "b") << "a";
  fs::create_symlink("a", folder / "link");
  fs::create_hard_link(folder / "a", folder / "hard");
  for (const char* const same : {"a", "./a", "link", "hard"})
    CHECK(is_same_file(folder / "a", folder / same));
  for (const char* const other : {"b", "none", "."}) CHECK(!is_same_file(folder / "a", folder / other));
  CHECK(!is_same_file("/dev/null", "/dev/null"));
}

TEST_CASE("the mode is the file's") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "key", "secret", Clobber::kRefuse, 0600).ok());
  struct stat info {};
  REQUIRE(::stat((folder / "key").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("a missing folder, or a file in its place, is an output that cannot be created") {
  const TemporaryFolder folder;
  const auto missing = write_file(folder / "none/x", "", Clobber::kRefuse);
  CHECK(missing.error().code == ErrorCode::kCannotCreate);
  CHECK(missing.error().hint == "create the folder " + folder / "none" + " first");
  REQUIRE(write_file(folder / "file", "", Clobber::kRefuse).ok());
  CHECK(write_file(folder / "file/x", "", Clobber::kRefuse).error().code == ErrorCode::kCannotCreate);
  CHECK(write_file(folder.path() + "/", "", Clobber::kRefuse).error().code == ErrorCode::kCannotCreate);
  CHECK(write_file(folder.path(), "", Clobber::kReplace).error().code != ErrorCode::kInternal);
}

/// Runs `body` in a child process, since it changes limits or the user; true if it returned true.
template <class Body>
bool in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Limits the size of this process's files; writers get an error, not a signal.
void limit_files(rlim_t size_bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit { size_bytes, size_bytes };
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(99);
}

TEST_CASE("a folder that may not be written is an output that cannot be created") {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                     fs::perms::others_exec);
  CHECK(in_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return false;
    const auto status = write_file(folder / "x", "y", Clobber::kRefuse);
    return !status.ok() && status.error().code == ErrorCode::kCannotCreate;
  }));
  fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK(folder.count() == 0);
}

TEST_CASE("when writing fails half way the error is I/O and the temporary file is removed") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "x", "old", Clobber::kRefuse).ok());
  CHECK(in_child([&] {
    limit_files(4096);
    const auto status = write_file(folder / "x", std::string(100000, 'n'), Clobber::kReplace);
    return !status.ok() && status.error().code == ErrorCode::kIo;
  }));
  CHECK(*read_file(folder / "x", kPlenty) == "old");
  CHECK(folder.count() == 1);
}

TEST_CASE("a full device is an I/O error, and devices are written, not replaced") {
  const auto full = write_file("/dev/full", "x", Clobber::kRefuse);
  CHECK(full.error().code == ErrorCode::kIo);
  CHECK(full.error().message == "/dev/full: cannot write: no space left on device");
  CHECK(write_file("/dev/null", "x", Clobber::kReplace).ok());
  CHECK_FALSE(fs::is_regular_file("/dev/null"));
}

TEST_CASE("what is no file and cannot be opened is an I/O error that says so") {
  const TemporaryFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "socket";
  REQUIRE(path.size() < sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const auto written = write_file(path, "x", Clobber::kReplace);
  ::close(descriptor);
  CHECK(written.error().code == ErrorCode::kIo);
  CHECK(written.error().message == path + ": cannot open: no such device or address");
}

TEST_CASE("a very long name still gets a temporary file") {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  CHECK(write_file(folder / name, "x", Clobber::kRefuse).ok());
  CHECK(exists(folder / name));
}

TEST_CASE("a line is appended whole or not at all, and only to a file that exists") {
  const TemporaryFolder folder;
  const std::string path = folder / "log";
  CHECK(append_line(path, "a").error().code == ErrorCode::kMissing);
  REQUIRE(write_file(path, "one\n", Clobber::kRefuse).ok());
  REQUIRE(append_line(path, "two").ok());
  CHECK(*read_file(path, 100) == "one\ntwo\n");
  CHECK(in_child([&] {
    limit_files(10);
    return append_line(path, "three").error().code == ErrorCode::kIo;
  }));
  CHECK(*read_file(path, 100) == "one\ntwo\n");
  REQUIRE(truncate_file(path, 4).ok());
  CHECK(*read_file(path, 100) == "one\n");
  CHECK(truncate_file(folder / "none", 0).error().code == ErrorCode::kMissing);
}

TEST_CASE("a lock is held by one at a time, on a file or a folder, and freed by its owner's end") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "file", "", Clobber::kRefuse).ok());
  for (const auto& [acquire, path] : {std::pair{&FileLock::acquire_file, folder / "lock"},
                                      {&FileLock::acquire, folder / "file"},
                                      {&FileLock::acquire, folder.path()}}) {
    {
      const auto mine = acquire(path, {});
      REQUIRE(mine.ok());
      const auto theirs = acquire(path, {});
      REQUIRE_FALSE(theirs.ok());
      CHECK(theirs.error().code == ErrorCode::kLocked);
      CHECK(theirs.error().message == path + ": another process is writing here");
    }
    CHECK(acquire(path, {}).ok());
  }
  CHECK(FileLock::acquire(folder / "none").error().code == ErrorCode::kMissing);
  CHECK_FALSE(exists(folder / "none"));
}

TEST_CASE("a lock is waited for until it is free, the time is over, or somebody stops it") {
  using std::chrono::milliseconds;
  const TemporaryFolder folder;
  std::optional<FileLock> mine;
  {
    auto lock = FileLock::acquire_file(folder / "lock");
    REQUIRE(lock.ok());
    mine.emplace(std::move(lock).value());
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto late = FileLock::acquire_file(folder / "lock", {milliseconds(60)});
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().code == ErrorCode::kLocked);
  CHECK(std::chrono::steady_clock::now() - begun >= milliseconds(60));

  StopFlag stop;
  stop.request();
  const auto stopped = FileLock::acquire_file(folder / "lock", {std::chrono::hours(1), &stop});
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::kInterrupted);

  std::thread owner([&mine] {
    std::this_thread::sleep_for(milliseconds(60));
    mine.reset();
  });
  CHECK(FileLock::acquire_file(folder / "lock", {std::chrono::hours(1)}).ok());
  owner.join();
}

TEST_CASE("a lock file is not made, nor opened, where a link leads") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  fs::create_symlink(folder / "elsewhere/made", folder / "lock");
  const auto lock = FileLock::acquire_file(folder / "lock");
  REQUIRE_FALSE(lock.ok());
  CHECK(lock.error().code == ErrorCode::kCannotCreate);
  CHECK(lock.error().message == folder / "lock" + ": is a symbolic link, not a lock file");
  CHECK_FALSE(exists(folder / "elsewhere/made"));
}

TEST_CASE("scratch takes the place of a link and leaves what it names alone") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder / "theirs", "theirs", Clobber::kRefuse).ok());
  fs::create_symlink(folder / "theirs", folder / "soft");
  fs::create_hard_link(folder / "theirs", folder / "hard");
  for (const char* name : {"soft", "hard", "none"}) {
    const std::string_view parts[] = {"ours", "!"};
    REQUIRE(write_scratch(folder / name, parts).ok());
    CHECK(*read_file(folder / name, kPlenty) == "ours!");
    CHECK(fs::is_regular_file(fs::symlink_status(folder / name)));
  }
  CHECK(*read_file(folder / "theirs", kPlenty) == "theirs");
  CHECK(remove_file(folder / "soft").ok());
  CHECK(remove_file(folder / "soft").ok());
  CHECK_FALSE(remove_file(folder.path()).ok());
}

TEST_CASE("a secret that others can use is told of, with its mode and what to do") {
  const TemporaryFolder folder;
  const std::string key = folder / "key";
  REQUIRE(write_file(key, "secret", Clobber::kRefuse, 0600).ok());
  for (const unsigned mode : {0600U, 0400U, 0700U}) {
    fs::permissions(key, static_cast<fs::perms>(mode));
    CHECK(warning_of_secret(key, "private key").empty());
  }
  for (const unsigned mode : {0604U, 0640U, 0666U, 0601U, 0602U, 0620U}) {
    fs::permissions(key, static_cast<fs::perms>(mode));
    CHECK(warning_of_secret(key, "private key")
              .starts_with(key + ": others can use this private key (mode 06"));
  }
  fs::create_symlink(key, folder / "link");
  CHECK_FALSE(warning_of_secret(folder / "link", "private key").empty());
  CHECK(warning_of_secret(folder.path(), "private key").empty());
  CHECK(warning_of_secret("/dev/null", "private key").empty());
  CHECK(warning_of_secret(folder / "none", "private key").empty());
}

TEST_CASE("a write that takes nothing is an error, not tried for ever") {
  class FullDevice final : public FileSystem {
   public:
    ssize_t write(int file, const void* bytes, std::size_t size) override {
      return ++calls <= 100 ? 0 : FileSystem::write(file, bytes, size);
    }
    int calls = 0;
  };
  const TemporaryFolder folder;
  FullDevice device;
  FileSystem* const before = use_file_system(&device);
  const Status written = write_file(folder / "x", "text", Clobber::kRefuse);
  use_file_system(before);
  REQUIRE_FALSE(written.ok());
  CHECK(written.error().code == ErrorCode::kIo);
  CHECK(device.calls == 1);
  CHECK(folder.count() == 0);
}

TEST_CASE("making a folder twice is fine, over a file or without its parent is not") {
  const TemporaryFolder folder;
  CHECK(make_folder(folder / "a").ok());
  CHECK(make_folder(folder / "a").ok());
  CHECK(make_folder(folder / "b/c").error().code == ErrorCode::kCannotCreate);
  REQUIRE(write_file(folder / "f", "", Clobber::kRefuse).ok());
  CHECK(make_folder(folder / "f").error().code == ErrorCode::kCannotCreate);
  CHECK(sync_folder(folder / "a").ok());
  CHECK_FALSE(sync_folder(folder / "none").ok());
}

}  // namespace
}  // namespace dgx
