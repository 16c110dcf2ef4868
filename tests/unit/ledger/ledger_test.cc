#include "dgx/ledger/ledger.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "dgx/merkle/digests.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::ledger;
using manifest::Body;
using manifest::Signed;

namespace {

constexpr std::uint8_t kOperator = 1;

/// A folder of its own that goes away.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dgx-ledger-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file() const { return path + "/L.jsonl"; }
  std::string path;
};

Signed<Body> deposit(int number) {
  return *manifest::seal_any(manifest::Deposit{test::key_id(7), 10, "payment " + std::to_string(number), test::ledger_id()},
                             test::key(kOperator));
}

/// A ledger of a policy and `count` deposits.
void fill(const std::string& path, int count) {
  REQUIRE(create(path, *manifest::seal_any(test::ledger_policy(), test::key(kOperator)), test::key(kOperator), 1'000)
              .ok());
  auto writer = Writer::open(path, test::key(kOperator));
  REQUIRE(writer.ok());
  for (int i = 0; i < count; ++i) REQUIRE(writer->append(deposit(i), 1'000 + 10 * i).ok());
}

std::string content(const std::string& path) { return *dgx::read_file(path, 1 << 24); }
void put(const std::string& path, const std::string& text) {
  REQUIRE(write_file(path, text, Clobber::kReplace).ok());
}

std::string message_of(const std::string& path) {
  const auto log = ledger::read(path);
  return log.ok() ? "accepted" : log.error().message.substr(path.size() + 2);
}

}  // namespace

TEST_CASE("what is appended is read back with its time") {
  const Folder folder;
  fill(folder.file(), 5);
  const auto log = ledger::read(folder.file());
  REQUIRE(log.ok());
  REQUIRE(log->entries.size() == 6);
  CHECK(log->torn.empty());
  CHECK(log->now() == 1'040);
  CHECK(log->operator_id() == test::key_id(kOperator));
  CHECK(*log->find(deposit(3).id) == 4);
  CHECK_FALSE(log->find(deposit(9).id).has_value());
  CHECK(receipts_path("a/L.jsonl") == "a/L.receipts.jsonl");
}

TEST_CASE("time never goes back, and a statement counts once") {
  const Folder folder;
  fill(folder.file(), 2);
  auto writer = Writer::open(folder.file(), test::key(kOperator));
  const auto receipt = writer->append(deposit(5), 3);
  REQUIRE(receipt.ok());
  CHECK(receipt->body.milliseconds == 1'010);
  CHECK(receipt->body.head == head_of(writer->log().entries));
  const auto again = writer->append(deposit(5), 2'000);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().code == ErrorCode::kUsage);
  CHECK(ledger::read(folder.file())->entries.size() == 4);
}

TEST_CASE("only the operator writes, and one at a time") {
  const Folder folder;
  fill(folder.file(), 1);
  CHECK(Writer::open(folder.file(), test::key(2)).error().code == ErrorCode::kUnauthorised);
  const auto first = Writer::open(folder.file(), test::key(kOperator));
  REQUIRE(first.ok());
  CHECK(Writer::open(folder.file(), test::key(kOperator)).error().code == ErrorCode::kCannotCreate);
  CHECK(Writer::open(folder.path + "/none.jsonl", test::key(kOperator)).error().code == ErrorCode::kMissing);
  CHECK(create(folder.file(), *manifest::seal_any(test::ledger_policy(), test::key(kOperator)), test::key(kOperator),
               0)
            .error()
            .code == ErrorCode::kCannotCreate);
}

TEST_CASE("a write cut off at any byte loses at most the entry being written") {
  const Folder folder;
  fill(folder.file(), 3);
  const std::string receipts = receipts_path(folder.file());
  const std::string entries_now = content(folder.file());
  const std::string receipts_now = content(receipts);
  const std::size_t entries_before = entries_now.rfind('\n', entries_now.size() - 2) + 1;
  const std::size_t receipts_before = receipts_now.rfind('\n', receipts_now.size() - 2) + 1;
  const auto check = [&](const std::string& ledger_text, const std::string& receipts_text) {
    put(folder.file(), ledger_text);
    put(receipts, receipts_text);
    const auto log = ledger::read(folder.file());
    REQUIRE(log.ok());
    REQUIRE(log->entries.size() == 3);
    auto writer = Writer::open(folder.file(), test::key(kOperator));
    REQUIRE(writer.ok());
    REQUIRE(writer->append(deposit(2), 1'020).ok());
    REQUIRE(content(folder.file()) == entries_now);
    REQUIRE(content(receipts) == receipts_now);
  };
  for (std::size_t cut = entries_before; cut < entries_now.size(); cut += 97) {
    check(entries_now.substr(0, cut), receipts_now.substr(0, receipts_before));
  }
  for (std::size_t cut = receipts_before; cut < receipts_now.size(); cut += 97) {
    check(entries_now, receipts_now.substr(0, cut));
  }
}

TEST_CASE("a ledger that lost or changed something in the middle is refused with its line") {
  const Folder folder;
  fill(folder.file(), 3);
  const std::string receipts = receipts_path(folder.file());
  const std::string entries_now = content(folder.file());
  const std::string receipts_now = content(receipts);
  const auto line_end = [](const std::string& text, int line) {
    std::size_t at = 0;
    for (int i = 0; i < line; ++i) at = text.find('\n', at) + 1;
    return at;
  };
  const auto without = [&](const std::string& text, int line) {
    return text.substr(0, line_end(text, line - 1)) + text.substr(line_end(text, line));
  };
  put(folder.file(), without(entries_now, 2));
  CHECK(message_of(folder.file()) == "3 entries, but 4 receipts");
  put(receipts, without(receipts_now, 2));
  CHECK(message_of(folder.file()) == "line 2: receipt: index: is not this line's");
  put(folder.file(), entries_now);
  put(receipts, without(receipts_now, 4));
  CHECK(message_of(folder.file()) == "accepted");
  CHECK(ledger::read(folder.file())->torn == "line 4 has no receipt; it does not count");
  put(receipts, receipts_now.substr(0, line_end(receipts_now, 2)));
  CHECK(message_of(folder.file()) == "4 entries, but 2 receipts");
  std::string flipped = entries_now;
  flipped[line_end(entries_now, 2) + 40] ^= 1;
  put(folder.file(), flipped);
  put(receipts, receipts_now);
  CHECK(message_of(folder.file()).find("line 3: ") == 0);
}

TEST_CASE("two ledgers that fork have no consistency proof, one that grows has") {
  const Folder folder;
  fill(folder.file(), 6);
  const auto log = ledger::read(folder.file());
  const auto old_head = head_of(std::span(log->entries).first(4));
  const auto new_head = head_of(log->entries);
  const auto path = prove_consistency(*log, 4, 7);
  REQUIRE(path.ok());
  CHECK(merkle::verify_consistency(4, old_head.root, 7, new_head.root, *path));
  CHECK_FALSE(merkle::verify_consistency(4, test::digest("fork"), 7, new_head.root, *path));
  const auto inclusion = prove_inclusion(*log, 2, 7);
  REQUIRE(inclusion.ok());
  const Digest leaf = merkle::ledger_leaf(log->entries[2].statement.id, 1'010);
  CHECK(merkle::verify_inclusion(leaf, 2, 7, *inclusion, new_head.root));
  CHECK_FALSE(prove_inclusion(*log, 7, 7).ok());
  CHECK_FALSE(prove_consistency(*log, 5, 4).ok());
  CHECK_FALSE(prove_consistency(*log, 1, 8).ok());
}

TEST_CASE("a logged tree head must be this ledger's present one") {
  const Folder folder;
  fill(folder.file(), 2);
  auto writer = Writer::open(folder.file(), test::key(kOperator));
  const auto head = tree_head(writer->log(), 5'000);
  auto wrong = head;
  wrong.head.root = test::digest("other");
  CHECK_FALSE(writer->append(*manifest::seal_any(wrong, test::key(kOperator)), 5'000).ok());
  CHECK(writer->append(*manifest::seal_any(head, test::key(kOperator)), 5'000).ok());
  CHECK(ledger::read(folder.file())->now() == 5'000);
}

TEST_CASE("of several statements all are appended or none") {
  const Folder folder;
  fill(folder.file(), 1);
  const std::string entries_before = content(folder.file());
  const std::string receipts_before = content(receipts_path(folder.file()));
  auto writer = Writer::open(folder.file(), test::key(kOperator));
  REQUIRE(writer.ok());
  CHECK_FALSE(writer->append_all({deposit(5), deposit(6), deposit(5)}, 2'000).ok());
  CHECK(content(folder.file()) == entries_before);
  CHECK(content(receipts_path(folder.file())) == receipts_before);
  CHECK(writer->log().entries.size() == 2);
  const auto receipts = writer->append_all({deposit(5), deposit(6)}, 2'000);
  REQUIRE(receipts.ok());
  CHECK(receipts->at(1).body.index == 3);
  CHECK(ledger::read(folder.file())->entries.size() == 4);
}

TEST_CASE("a reader who comes while a writer appends sees a whole ledger") {
  const Folder folder;
  fill(folder.file(), 1);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    auto ledger = Writer::open(folder.file(), test::key(kOperator));
    for (int i = 10; i < 60 && ledger.ok(); ++i) static_cast<void>(ledger->append(deposit(i), 2'000).ok());
    done = true;
  });
  std::size_t last = 0;
  std::string trouble;
  while (!done && trouble.empty()) {
    const auto log = ledger::read(folder.file());
    if (!log.ok()) trouble = log.error().message;
    if (log.ok() && log->entries.size() < last) trouble = "entries went away";
    if (log.ok()) last = log->entries.size();
  }
  writer.join();
  CHECK(trouble.empty());
  CHECK(ledger::read(folder.file())->entries.size() == 52);
}
