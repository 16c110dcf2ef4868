#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dgx/core/file_system.h"

namespace dgx::test {

/// The faulty twin of FileSystem: does each call for real below one folder, counts it, fails a chosen one, and
/// remembers what was synced, so that crash() can leave the folder as a computer that lost its power could.
///
/// It is in use from its construction to its end. A file's bytes are durable once it was synced, a name once its
/// folder was; of all later changes any may be lost, of a file's the last ones.
class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault {
    kNone,
    kShort,     ///< half of what was to be written is written
    kNoSpace,   ///< ENOSPC, from this call on for all that take space
    kIo,        ///< EIO, once
    kCut,       ///< this call and all later ones do nothing, and fail
  };
  /// The part of what was not synced that survives a crash.
  enum class Survival { kNothing, kNames, kBytes, kAll, kDrawn };

  FaultyFileSystem(std::string folder, Fault fault, std::int64_t at);
  ~FaultyFileSystem() override;

  /// The number of calls so far, opens to read and closes left out.
  [[nodiscard]] std::int64_t calls() const { return calls_; }
  [[nodiscard]] bool reached() const { return calls_ > at_; }
  /// Leaves the folder as it may be found after a crash at this moment. `seed` is of kDrawn.
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
  /// A write, or with `cut` set a truncation to `at`.
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
  /// A name that comes (`node`), and one that goes with it; either may be empty.
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

  /// Counts a call; whether it goes on. Sets errno if not.
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
