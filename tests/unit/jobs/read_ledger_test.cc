#include "settle/read_ledger.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "dgx/core/files.h"
#include "dgx/crypto/sha256.h"
#include "statements.h"
#include "task/work_keys.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

constexpr std::uint8_t kOperator = 1;
constexpr int kEntries = 1'050;

struct Notes : Progress {
  void note(std::string_view text) override { texts.emplace_back(text); }
  std::vector<std::string> texts;
};

/// A ledger of more entries than are read without being remembered, and a user's state folder.
struct Scene {
  Scene() {
    std::string name = (std::filesystem::temp_directory_path() / "dgx-state-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    ::setenv("XDG_STATE_HOME", (folder + "/state").c_str(), 1);
    path = folder + "/L.jsonl";
    REQUIRE(
        ledger::create(path, *seal_any(test::ledger_policy(), test::key(kOperator)), test::key(kOperator), 1)
            .ok());
    auto writer = ledger::Writer::open(path, test::key(kOperator));
    std::vector<Signed<Body>> deposits;
    for (int i = 1; i < kEntries; ++i) deposits.push_back(deposit(i));
    REQUIRE(writer->append_all(std::move(deposits), 2).ok());
  }
  ~Scene() {
    ::unsetenv("XDG_STATE_HOME");
    std::filesystem::remove_all(folder);
  }
  static Signed<Body> deposit(int number) {
    return *seal_any(Deposit{test::key_id(7), 1, std::to_string(number), test::ledger_id()},
                     test::key(kOperator));
  }
  /// Reads the ledger: "read", or the error. Keeps what was noted.
  [[nodiscard]] std::string read() {
    notes.texts.clear();
    const auto log = jobs::read_ledger({path, {}, 2, &notes});
    return log.ok() ? "read" : log.error().message.substr(path.size() + 2);
  }
  [[nodiscard]] std::string place() const { return folder + "/state/dgx/ledgers/" + test::ledger_id().hex(); }
  /// Gives line 5 the signature of line 6: nothing else follows from it.
  void forge() const {
    std::string text = *read_file(path, 1 << 24);
    std::size_t at = 0;
    for (int i = 1; i < 5; ++i) at = text.find('\n', at) + 1;
    const std::size_t ours = text.find("\"sig\":\"", at) + 7;
    const std::size_t theirs = text.find("\"sig\":\"", text.find('\n', at)) + 7;
    text.replace(ours, 88, text.substr(theirs, 88));
    put(path, text);
  }
  static void put(const std::string& file, const std::string& text) {
    REQUIRE(write_file(file, text, Clobber::kReplace).ok());
  }

  std::string folder;
  std::string path;
  Notes notes;
};

const std::string kForged = "line 5: envelope: bad signature of key " + test::key_id(kOperator).brief();

}  // namespace

TEST_CASE("what a user has checked is remembered for them alone, and not for a few entries") {
  Scene scene;
  REQUIRE(scene.read() == "read");
  CHECK(scene.notes.texts.empty());
  REQUIRE(exists(scene.place()));
  struct stat info {};
  REQUIRE(::stat(scene.place().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
  const std::string before = *read_file(scene.place(), 4096);
  {
    auto writer = ledger::Writer::open(scene.path, test::key(kOperator));
    REQUIRE(writer->append(Scene::deposit(kEntries), 3).ok());
  }
  REQUIRE(scene.read() == "read");
  CHECK(*read_file(scene.place(), 4096) == before);
}

TEST_CASE("a forged ledger with a planted prefix is refused") {
  Scene scene;
  REQUIRE(scene.read() == "read");
  const std::string real = *read_file(scene.place(), 4096);
  scene.forge();
  CHECK(scene.read() == kForged);  // the remembered bytes are others
  // A prefix that fits the forged files, under another key, without a code, or with the real one's code.
  const std::string text = *read_file(scene.path, 1 << 24);
  const std::size_t at = real.find("ledger_sha256\":\"") + 16;
  std::string line = real.substr(0, real.find('\n'));
  line.replace(at, 64, crypto::sha256(as_bytes(text)).hex());
  const std::string code = real.substr(real.find('\n') + 1);
  for (const std::string& planted : {jobs::WorkKeys::of(test::key(9)).seal(line), line + "\n",
                                     line + "\n" + code, real.substr(0, 200), std::string(), real + real}) {
    Scene::put(scene.place(), planted);
    CHECK(scene.read() == kForged);
  }
  // Beside the ledger nothing is looked for.
  Scene::put(scene.folder + "/" + test::ledger_id().hex(), line + "\n" + code);
  REQUIRE(remove_file(scene.place()).ok());
  CHECK(scene.read() == kForged);
  CHECK(scene.notes.texts.empty());
}

TEST_CASE("a prefix that was damaged, or is another ledger's, is called so and made again") {
  Scene scene;
  REQUIRE(scene.read() == "read");
  const std::string real = *read_file(scene.place(), 4096);
  Progress silent;
  const auto keys = jobs::WorkKeys::find(nullptr, std::nullopt, silent);
  std::string other = real.substr(0, real.find('\n'));
  other.replace(other.find("\"ledger\":\"") + 10, 4, "0000");
  std::string bent = real;
  bent[30] = static_cast<char>(bent[30] ^ 1);
  for (const std::string& text :
       {bent, real.substr(0, real.size() - 1), keys->seal(other), keys->seal("{}")}) {
    Scene::put(scene.place(), text);
    REQUIRE(scene.read() == "read");
    REQUIRE(scene.notes.texts.size() == 1);
    CHECK(scene.notes.texts[0].find("cannot be believed") != std::string::npos);
    CHECK(*read_file(scene.place(), 4096) == real);
  }
  // A whole one of the same ledger at another time, which these files do not begin with.
  std::string older = real.substr(0, real.find('\n'));
  older.replace(older.find("\"ledger_sha256\":\"") + 17, 4, "0000");
  Scene::put(scene.place(), keys->seal(older));
  REQUIRE(scene.read() == "read");
  REQUIRE(scene.notes.texts.size() == 1);
  CHECK(scene.notes.texts[0].find("does not begin as when it was last read") != std::string::npos);
}

TEST_CASE("where nothing can be remembered everything is checked") {
  Scene scene;
  Scene::put(scene.folder + "/state", "a file where the folder should be");
  CHECK(scene.read() == "read");
  ::unsetenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  ::unsetenv("HOME");
  CHECK(scene.read() == "read");
  ::setenv("HOME", kept.c_str(), 1);
}
