#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dgx/core/file_system.h"

namespace dgx::test {

/// The faulty twin of FileSystem: makes real calls below one folder, counts them, fails a chosen one, and
/// records what was synced, so that crash() can leave the folder as a power failure might.
///
/// In use from construction to destruction. A file's bytes are durable once the file was synced, a name once
/// its folder was; any later change may be lost, of one file's the last ones.
class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault {
    kNone,
    kShort,    ///< half of the bytes are written
    kNoSpace,  ///< ENOSPC, for this and all later calls that take space
    kIo,       ///< EIO, once
    kCut,      ///< this call and all later ones do nothing, and fail
  };
  /// The unsynced changes that survive a crash.
  enum class Survival { kNothing, kNames, kBytes, kAll, kDrawn };

  FaultyFileSystem(std::string folder, Fault fault, std::int64_t at);
  ~FaultyFileSystem() override;

  /// The number of calls so far, except opening for reading and closing.
  [[nodiscard]] std::int64_t calls() const { return calls_; }
  [[nodiscard]] bool reached() const { return calls_ > at_; }
  /// Leaves the folder as a crash now might. `seed` is used by kDrawn.
  void crash(Survival survival, std::uint64_t seed);

  int open(const char* path, int flags, unsigned mode) override;
  int close(int file) override;
  ssize_t write(int file, const void* bytes, std::size_t size) override;
  ssize_t pwrite(int file, const void* bytes, std::size_t size, off_t at) override;
  int ftruncate(int file, off_t size) override;
  int fsync(int file) override;
  int rename(const char* from, const char* to) override;
  int rename_no_replace(const char* from, const char* to) override;
  int link(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, unsigned mode) override;

 private:
  static constexpr int kFolder = -1;
  /// A write or, if `cut` is set, a truncation to `at`.
  struct Change {
    std::size_t at;
    std::string bytes;
    bool cut;
  };
  struct Node {
    std::string durable;
    std::vector<Change> pending;
    std::size_t size = 0;
  };
  /// A name that appears (`node`), and one that vanishes with it; either may be empty.
  struct Naming {
    std::string comes;
    int node;
    std::string goes;
  };
  struct Opened {
    int node = kFolder;
    std::string path;
    bool append = false;
    std::size_t position = 0;
  };
  using Names = std::map<std::string, int>;

  /// Counts a call; true if it may proceed, else sets errno.
  bool go_on(bool takes_space);
  std::size_t shortened(std::size_t size) const;
  void note_write(int file, const void* bytes, std::size_t size, std::size_t at);
  void name(std::string comes, int node, std::string goes);
  static void apply(Names& names, const Naming& naming);
  static std::string content_of(const Node& node, bool all, std::uint64_t* random);

  std::string folder_;
  Fault fault_;
  std::int64_t at_;
  std::int64_t calls_ = 0;
  std::vector<Node> nodes_;
  Names durable_names_;
  Names names_;
  std::vector<Naming> pending_names_;
  std::map<int, Opened> open_;
  FileSystem* before_;
};

}  // namespace dgx::test
