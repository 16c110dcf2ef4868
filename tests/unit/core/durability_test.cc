// The guarantees of core/files in a crash and on a full disk, for a fault at every system call
// (faulty_file_system.h).
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "dgx/core/files.h"
#include "faulty_file_system.h"

namespace dgx {
namespace {

namespace fs = std::filesystem;
using test::FaultyFileSystem;
using Fault = FaultyFileSystem::Fault;
using Survival = FaultyFileSystem::Survival;

constexpr std::size_t kPlenty = 1 << 20;
constexpr Fault kFaults[] = {Fault::kNone, Fault::kShort, Fault::kNoSpace, Fault::kIo, Fault::kCut};
constexpr std::uint64_t kDraws = 12;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "dgx-durability-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A sequence of writes: `prepare` runs first, then `write` with a fault at one call; after a crash `check`
/// compares what it finds with the number that `write` returned.
struct Story {
  std::function<void(const Folder&)> prepare;
  std::function<int(const Folder&)> write;
  std::function<void(const Folder&, int)> check;
};

/// Plays the story once; true if its fault was reached.
bool play(const Story& story, Fault fault, std::int64_t at, Survival survival, std::uint64_t seed) {
  CAPTURE(static_cast<int>(fault), at, static_cast<int>(survival), seed);
  const Folder folder;
  story.prepare(folder);
  bool reached = false;
  int said = 0;
  {
    FaultyFileSystem system(folder.path(), fault, at);
    said = story.write(folder);
    reached = system.reached();
    system.crash(survival, seed);
  }
  story.check(folder, said);
  return reached;
}

/// Plays every fault at every call, with everything that may survive a crash. Returns the number of stories.
int play_all(const Story& story) {
  int played = 0;
  for (const Fault fault : kFaults) {
    bool reached = true;
    for (std::int64_t at = 0; reached; ++at) {
      for (const Survival survival :
           {Survival::kNothing, Survival::kNames, Survival::kBytes, Survival::kAll}) {
        reached = play(story, fault, at, survival, 0);
        ++played;
      }
      for (std::uint64_t seed = 1; seed <= kDraws; ++seed, ++played)
        play(story, fault, at, Survival::kDrawn, seed);
      if (fault == Fault::kNone) break;
    }
  }
  return played;
}

/// Writes without a sync, which would take most of these tests' time.
void put(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string content_of(const std::string& path) {
  const auto found = read_file(path, kPlenty);
  return found.ok() ? *found : found.error().code == ErrorCode::kMissing ? "(none)" : "(error)";
}

TEST_CASE("a file that was written is there after any crash, and one that was not is whole or absent") {
  const std::string content(70000, 'n');
  for (const Clobber clobber : {Clobber::kRefuse, Clobber::kReplace}) {
    const std::string old = clobber == Clobber::kRefuse ? "(none)" : "old";
    const Story story{
        [&](const Folder& folder) {
          if (clobber == Clobber::kReplace) put(folder / "x", old);
        },
        [&](const Folder& folder) { return write_file(folder / "x", content, clobber).ok() ? 1 : 0; },
        [&](const Folder& folder, int written) {
          const std::string found = content_of(folder / "x");
          CHECK((found == content || (written == 0 && found == old)));
        }};
    CHECK(play_all(story) > 200);
  }
}

TEST_CASE("an error of the system is told, and leaves the old file and no other") {
  for (const Fault fault : {Fault::kNoSpace, Fault::kIo}) {
    for (std::int64_t at = 0;; ++at) {
      CAPTURE(static_cast<int>(fault), at);
      const Folder folder;
      put(folder / "x", "old");
      FaultyFileSystem system(folder.path(), fault, at);
      const Status status = write_file(folder / "x", "new", Clobber::kReplace);
      if (!system.reached()) {
        CHECK(status.ok());
        break;
      }
      REQUIRE_FALSE(status.ok());
      CHECK((status.error().code == ErrorCode::kIo || status.error().code == ErrorCode::kCannotCreate));
      const bool renamed =
          system.calls() == at + 1 && content_of(folder / "x") == "new";  // only its sync failed
      CHECK((renamed || content_of(folder / "x") == "old"));
      CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
    }
  }
}

TEST_CASE("lines that were appended are there after any crash; of another one a beginning may follow") {
  const std::vector<std::string> lines = {std::string(100, 'a'), std::string(5000, 'b'), std::string(9, 'c')};
  const Story story{[](const Folder& folder) { put(folder / "log", "first\n"); },
                    [&](const Folder& folder) {
                      int written = 0;
                      for (const std::string& line : lines) {
                        if (!append_line(folder / "log", line).ok()) break;
                        ++written;
                      }
                      return written;
                    },
                    [&](const Folder& folder, int written) {
                      std::string expected = "first\n";
                      for (int i = 0; i < written; ++i) expected += lines[static_cast<std::size_t>(i)] + "\n";
                      const std::string found = content_of(folder / "log");
                      REQUIRE(found.starts_with(expected));
                      const std::string rest = found.substr(expected.size());
                      const std::size_t next = static_cast<std::size_t>(written);
                      const bool whole = next < lines.size() && rest == lines[next] + "\n";
                      CHECK((whole || rest.find('\n') == std::string::npos));
                      CHECK((next < lines.size() || rest.empty()));
                    }};
  CHECK(play_all(story) > 200);
}

TEST_CASE("an append that fails is cut off, so that the next one begins a line") {
  for (const Fault fault : {Fault::kNoSpace, Fault::kIo}) {
    for (std::int64_t at = 0; at < 2; ++at) {
      const Folder folder;
      put(folder / "log", "first\n");
      {
        const FaultyFileSystem system(folder.path(), fault, at);
        CHECK(append_line(folder / "log", "lost").error().code == ErrorCode::kIo);
      }
      CHECK(content_of(folder / "log") == "first\n");
    }
  }
}

TEST_CASE("what was cut off a file stays cut off") {
  const Story story{[](const Folder& folder) { put(folder / "log", "first\ntorn"); },
                    [](const Folder& folder) { return truncate_file(folder / "log", 6).ok() ? 1 : 0; },
                    [](const Folder& folder, int cut) {
                      const std::string found = content_of(folder / "log");
                      CHECK((found == "first\n" || (cut == 0 && found == "first\ntorn")));
                    }};
  CHECK(play_all(story) > 50);
}

TEST_CASE("a file in a new folder is there with its folder") {
  const Story story{[](const Folder&) {},
                    [](const Folder& folder) {
                      if (!make_folder(folder / "run").ok()) return 0;
                      return write_file(folder / "run/x", "new", Clobber::kRefuse).ok() ? 1 : 0;
                    },
                    [](const Folder& folder, int written) {
                      const std::string found = content_of(folder / "run/x");
                      CHECK((found == "new" || (written == 0 && found == "(none)")));
                    }};
  CHECK(play_all(story) > 200);
}

TEST_CASE("a folder that a killed call made is made durable by the next") {
  const Story story{[](const Folder&) {},
                    [](const Folder& folder) {
                      // Killed before sync.
                      REQUIRE(file_system().mkdir((folder / "run").c_str(), 0755) == 0);
                      if (!make_folder(folder / "run").ok()) return 0;
                      return write_file(folder / "run/x", "new", Clobber::kRefuse).ok() ? 1 : 0;
                    },
                    [](const Folder& folder, int written) {
                      CHECK((written == 0 || content_of(folder / "run/x") == "new"));
                    }};
  for (const Survival survival : {Survival::kNothing, Survival::kNames, Survival::kBytes, Survival::kAll}) {
    play(story, Fault::kNone, 0, survival, 0);
  }
}

}  // namespace
}  // namespace dgx
