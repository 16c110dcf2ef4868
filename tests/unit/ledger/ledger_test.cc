#include "dgx/ledger/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "consistency.h"
#include "dgx/merkle/digests.h"
#include "faulty_file_system.h"
#include "support.h"

using namespace dgx;
using namespace dgx::ledger;
using manifest::Body;
using manifest::Signed;
using test::content;
using test::kOperator;

namespace {

using Folder = test::LedgerFolder;

Signed<Body> deposit(int number) { return test::numbered_deposit(number); }

/// A ledger of a policy and `count` deposits.
void fill(const std::string& path, int count) {
  REQUIRE(create(path, *manifest::seal_any(test::ledger_policy(), test::key(kOperator)), test::key(kOperator),
                 1'000)
              .ok());
  auto writer = Writer::open(path, test::key(kOperator));
  REQUIRE(writer.ok());
  for (int i = 0; i < count; ++i) REQUIRE(writer->append(deposit(i), 1'000 + 10 * i).ok());
}

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
  CHECK(receipt->body.head == writer->log().head());
  const auto again = writer->append(deposit(5), 2'000);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().code == ErrorCode::kNotAllowed);
  CHECK(ledger::read(folder.file())->entries.size() == 4);
}

TEST_CASE("only the operator writes, and one at a time") {
  const Folder folder;
  fill(folder.file(), 1);
  CHECK(Writer::open(folder.file(), test::key(2)).error().code == ErrorCode::kUnauthorised);
  const auto first = Writer::open(folder.file(), test::key(kOperator));
  REQUIRE(first.ok());
  CHECK(Writer::open(folder.file(), test::key(kOperator)).error().code == ErrorCode::kLocked);
  CHECK(Writer::open(folder.path + "/none.jsonl", test::key(kOperator)).error().code == ErrorCode::kMissing);
  CHECK(create(folder.file(), *manifest::seal_any(test::ledger_policy(), test::key(kOperator)),
               test::key(kOperator), 0)
            .error()
            .code == ErrorCode::kCannotCreate);
}

TEST_CASE("a ledger that could not be created whole is not there, and the next call creates it") {
  using test::FaultyFileSystem;
  const auto make = [](const std::string& path) {
    return create(path, *manifest::seal_any(test::ledger_policy(), test::key(kOperator)),
                  test::key(kOperator), 1'000);
  };
  for (const auto fault :
       {FaultyFileSystem::Fault::kNoSpace, FaultyFileSystem::Fault::kIo, FaultyFileSystem::Fault::kCut}) {
    bool reached = true;
    for (std::int64_t at = 0; reached; ++at) {
      for (const auto survival : {FaultyFileSystem::Survival::kNothing, FaultyFileSystem::Survival::kNames,
                                  FaultyFileSystem::Survival::kBytes, FaultyFileSystem::Survival::kAll}) {
        CAPTURE(static_cast<int>(fault), at, static_cast<int>(survival));
        const Folder folder;
        {
          FaultyFileSystem faulty(folder.path, fault, at);
          const bool done = make(folder.file()).ok();
          reached = faulty.reached();
          if (fault == FaultyFileSystem::Fault::kCut) faulty.crash(survival, 1);
          if (done) CHECK(exists(folder.file()));
        }
        if (!exists(folder.file())) REQUIRE(make(folder.file()).ok());
        CHECK(ledger::read(folder.file())->entries.size() == 1);
        CHECK(make(folder.file()).error().code == ErrorCode::kCannotCreate);
      }
    }
  }
}

TEST_CASE("receipts of a ledger that was moved away are not replaced") {
  const Folder folder;
  fill(folder.file(), 1);
  std::filesystem::rename(folder.file(), folder.path + "/away");
  const std::string before = content(receipts_path(folder.file()));
  CHECK(create(folder.file(), *manifest::seal_any(test::ledger_policy(), test::key(kOperator)),
               test::key(kOperator), 0)
            .error()
            .code == ErrorCode::kCannotCreate);
  CHECK(content(receipts_path(folder.file())) == before);
  CHECK_FALSE(exists(folder.file()));
}

TEST_CASE("an append cut off at any byte leaves a beginning of it, and the next one completes it") {
  const Folder folder;
  fill(folder.file(), 1);
  const std::string receipts = receipts_path(folder.file());
  const std::size_t entries_before = content(folder.file()).size();
  const std::size_t receipts_before = content(receipts).size();
  const std::vector<Signed<Body>> batch{deposit(5), deposit(6), deposit(7)};
  REQUIRE(Writer::open(folder.file(), test::key(kOperator))->append_all(batch, 2'000).ok());
  const std::string entries_now = content(folder.file());
  const std::string receipts_now = content(receipts);
  const auto check = [&](std::size_t entries_cut, std::size_t receipts_cut) {
    put(folder.file(), entries_now.substr(0, entries_cut));
    put(receipts, receipts_now.substr(0, receipts_cut));
    const auto log = ledger::read(folder.file());
    REQUIRE(log.ok());
    const auto receipts_end = receipts_now.begin() + static_cast<std::ptrdiff_t>(receipts_cut);
    const auto counted = std::count(receipts_now.begin(), receipts_end, '\n');
    REQUIRE(std::ssize(log->entries) == counted);
    REQUIRE(log->torn.empty() == (content(folder.file()).size() == entries_before || counted == 5));
    auto writer = Writer::open(folder.file(), test::key(kOperator));
    REQUIRE(writer.ok());
    std::vector<Signed<Body>> rest;
    for (const Signed<Body>& statement : batch) {
      if (!writer->contains(statement.id)) rest.push_back(statement);
    }
    REQUIRE(writer->append_all(rest, 2'000).ok());
    REQUIRE(content(folder.file()) == entries_now);
    REQUIRE(content(receipts) == receipts_now);
  };
  for (std::size_t cut = entries_before; cut < entries_now.size(); cut += 97) check(cut, receipts_before);
  for (std::size_t cut = receipts_before; cut <= receipts_now.size(); cut += 97)
    check(entries_now.size(), cut);
  check(entries_now.size(), receipts_now.size());
}

TEST_CASE("an append that a writer could not cut back is cut before the next one") {
  const Folder folder;
  fill(folder.file(), 1);
  auto writer = Writer::open(folder.file(), test::key(kOperator));
  put(folder.file(), content(folder.file()) + deposit(5).envelope + "\n{");
  REQUIRE(writer->append(deposit(6), 2'000).ok());
  CHECK(ledger::read(folder.file())->entries.size() == 3);
  put(folder.file(), "");
  CHECK(writer->append(deposit(7), 2'000).error().code == ErrorCode::kIo);
}

TEST_CASE("no append makes a file longer than allowed") {
  const Folder folder;
  fill(folder.file(), 1);
  const std::size_t line = deposit(5).envelope.size() + 1;
  const std::size_t before = content(folder.file()).size();
  const std::size_t receipts_before = content(receipts_path(folder.file())).size();
  const auto code = [&](std::size_t most, int count) {
    auto writer = Writer::open(folder.file(), test::key(kOperator), most);
    std::vector<Signed<Body>> batch;
    for (int i = 0; i < count; ++i) batch.push_back(deposit(5 + i));
    const auto receipts = writer->append_all(batch, 2'000);
    return receipts.ok() ? 0 : static_cast<int>(receipts.error().code);
  };
  CHECK(code(before + 3 * line - 1, 3) == static_cast<int>(ErrorCode::kNotAllowed));
  CHECK(code(receipts_before + 100, 1) ==
        static_cast<int>(ErrorCode::kNotAllowed));  // receipts are longer than deposits
  CHECK(content(folder.file()).size() == before);
  CHECK(code(std::max(before, receipts_before) + 3 * kMaxReceiptBytes, 3) == 0);
  CHECK(content(receipts_path(folder.file())).size() > content(folder.file()).size());
}

TEST_CASE("a receipt and a tree head are never longer than said") {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const manifest::Receipt receipt{
      test::digest("l"), test::digest("s"), kMost - 1, kMost, {test::digest("r"), kMost}};
  const manifest::TreeHead head{test::digest("l"), {test::digest("r"), kMost}, kMost};
  for (const Body& body : {Body(receipt), Body(head)})
    CHECK(manifest::seal_any(body, test::key(kOperator))->envelope.size() < kMaxReceiptBytes);
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
  CHECK(message_of(folder.file()) == "accepted");
  CHECK(ledger::read(folder.file())->torn == "lines 3 to 4 have no receipt; they do not count");
  put(receipts, receipts_now.substr(0, line_end(receipts_now, 4) + 9));
  CHECK(message_of(folder.file()) == "accepted");
  put(receipts, receipts_now + "{");
  CHECK(ledger::read(folder.file()).error().message == receipts + ": has a cut-off line without an entry");
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
  const auto old_head = log->head(4);
  const auto new_head = log->head();
  const auto path = prove_consistency(*log, 4, 7);
  REQUIRE(path.ok());
  CHECK(test::verify_consistency(4, old_head.root, 7, new_head.root, *path));
  CHECK_FALSE(test::verify_consistency(4, test::digest("fork"), 7, new_head.root, *path));
  const auto inclusion = prove_inclusion(*log, 2, 7);
  REQUIRE(inclusion.ok());
  const Digest leaf = merkle::ledger_leaf(log->entries[2].id, 1'010);
  CHECK(merkle::verify_inclusion(leaf, 2, 7, *inclusion, new_head.root));
  CHECK_FALSE(prove_inclusion(*log, 7, 7).ok());
  CHECK_FALSE(prove_inclusion(*log, 2, 8).ok());
  CHECK_FALSE(prove_consistency(*log, 0, 4).ok());
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
    for (int i = 10; i < 60 && ledger.ok(); i += 2)
      static_cast<void>(ledger->append_all({deposit(i), deposit(i + 1)}, 2'000).ok());
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
