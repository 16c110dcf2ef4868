#include <unistd.h>

#include <catch2/catch.hpp>

#include "dgx/crypto/sha256.h"
#include "dgx/ledger/index.h"
#include "support.h"

using namespace dgx;
using namespace dgx::ledger;
using manifest::Body;
using manifest::Signed;
using test::content;
using test::kOperator;
using test::LedgerFolder;
using test::numbered_deposit;

namespace {

void put(const std::string& path, const std::string& text) {
  REQUIRE(write_file(path, text, Clobber::kReplace).ok());
}

/// A ledger of a policy and `count` deposits, appended at once, the first numbered `first`.
void fill(const std::string& path, int count, int first = 0) {
  REQUIRE(create(path, *manifest::seal_any(test::ledger_policy(), test::key(kOperator)), test::key(kOperator),
                 1'000)
              .ok());
  auto writer = Writer::open(path, test::key(kOperator));
  REQUIRE(writer.ok());
  std::vector<Signed<Body>> deposits;
  for (int i = 0; i < count; ++i) deposits.push_back(numbered_deposit(first + i));
  REQUIRE(writer->append_all(deposits, 2'000).ok());
}

/// A ledger whose entry `line` (from 1) has the signature of its neighbour: everything but that signature is
/// right, since nothing is derived from it.
void forge_signature(const std::string& path, int line) {
  std::string text = content(path);
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  const std::size_t ours = text.find("\"sig\":\"", at) + 7;
  const std::size_t theirs = text.find("\"sig\":\"", text.find('\n', at)) + 7;
  text.replace(ours, 88, text.substr(theirs, 88));
  put(path, text);
}

std::string flipped(std::string text, std::size_t bit) {
  text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  return text;
}

}  // namespace

TEST_CASE("reading gives the same at any number of threads, in order, however many batches there are") {
  const LedgerFolder folder;
  fill(folder.file(), 4'500);
  for (const int threads : {1, 3}) {
    std::vector<Digest> seen;
    const auto visit = [&](std::size_t index, const Signed<Body>& statement, std::int64_t milliseconds) {
      REQUIRE(index == seen.size());
      REQUIRE(milliseconds == (index == 0 ? 1'000 : 2'000));
      seen.push_back(statement.id);
    };
    const auto log = ledger::read(folder.file(), {threads, {}, visit});
    REQUIRE(log.ok());
    REQUIRE(log->entries.size() == 4'501);
    REQUIRE(seen.size() == 4'501);
    CHECK(seen[4'500] == log->entries[4'500].id);
    CHECK(log->head().root == log->checked.root);
    CHECK(log->statement(4'321)->id == numbered_deposit(4'320).id);
    const auto receipt = manifest::open_statement<manifest::Receipt>(*log->receipt(4'321));
    REQUIRE(receipt.ok());
    CHECK(receipt->body.index == 4'321);
  }
}

TEST_CASE("an entry that has changed since the ledger was read is not given out") {
  const LedgerFolder folder;
  fill(folder.file(), 3);
  const auto log = ledger::read(folder.file());
  REQUIRE(log->statement(2).ok());
  put(folder.file(), flipped(content(folder.file()), 8 * (log->entries[2].offset + 40)));
  CHECK_FALSE(log->statement(2).ok());
  CHECK(log->statement(1).ok());
}

TEST_CASE("with a checked prefix its signatures are not checked again, and all others are") {
  const LedgerFolder folder;
  fill(folder.file(), 20);
  const CheckedPrefix all = ledger::read(folder.file())->checked;
  const std::string entries = content(folder.file());
  const std::string receipts = content(receipts_path(folder.file()));
  {
    auto writer = Writer::open(folder.file(), test::key(kOperator));
    REQUIRE(writer->append_all({numbered_deposit(30), numbered_deposit(31)}, 3'000).ok());
  }
  const auto log = ledger::read(folder.file(), {2, all});
  REQUIRE(log.ok());
  CHECK_FALSE(log->unlike_before);
  CHECK(log->checked == ledger::read(folder.file())->checked);
  forge_signature(folder.file(), 22);
  CHECK(ledger::read(folder.file(), {2, all}).error().message.find("line 22: envelope: bad signature") !=
        std::string::npos);
}

TEST_CASE("a forged ledger is refused, whatever checked prefix its reader has of another one") {
  const LedgerFolder folder;
  fill(folder.file(), 20);
  const CheckedPrefix real = ledger::read(folder.file())->checked;
  forge_signature(folder.file(), 7);
  // The prefix that somebody would plant who has changed the signature: that of the forged files.
  CheckedPrefix fitting = real;
  fitting.ledger_sha256 = crypto::sha256(as_bytes(content(folder.file())));
  CHECK(ledger::read(folder.file(), {1, fitting}).ok());  // a reader believes what they say they have checked
  const std::string refused =
      folder.file() + ": line 7: envelope: bad signature of key " + test::key_id(kOperator).brief();
  CHECK(ledger::read(folder.file(), {1, real}).error().message == refused);
  CHECK(ledger::read(folder.file()).error().message == refused);
}

TEST_CASE("a checked prefix that does not fit changes nothing, and is called so") {
  const LedgerFolder folder;
  fill(folder.file(), 20);
  const CheckedPrefix real = ledger::read(folder.file())->checked;
  const LedgerFolder other;
  fill(other.file(), 30, 100);
  std::vector<CheckedPrefix> wrong(6, real);
  wrong[0].count -= 1;
  wrong[1].ledger_bytes += 1;
  wrong[2].receipt_bytes -= 1;
  wrong[3].ledger_sha256.bytes[5] ^= 1;
  wrong[4].receipts_sha256.bytes[31] ^= 128;
  wrong[5].root.bytes[0] ^= 2;
  wrong.push_back(ledger::read(other.file())->checked);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    CAPTURE(i);
    std::size_t begun = 0, given = 0;
    const auto visit = [&](std::size_t index, const Signed<Body>&, std::int64_t) {
      begun += index == 0 ? 1 : 0;
      given = index == 0 ? 1 : given + 1;
    };
    const auto log = ledger::read(folder.file(), {2, wrong[i], visit});
    REQUIRE(log.ok());
    CHECK(log->unlike_before);
    CHECK(log->checked == real);
    CHECK(begun >= 1);
    CHECK(given == 21);
  }
}

TEST_CASE("a writer keeps the index, and makes a wrong one again") {
  const LedgerFolder folder;
  fill(folder.file(), 5);
  const std::string index = index_path(folder.file());
  CHECK(index == folder.path + "/L.index");
  const std::string right = content(index);
  REQUIRE(right.size() == 6 * kIndexRecordBytes);
  const auto log = ledger::read(folder.file());
  CHECK(right.substr(5 * kIndexRecordBytes, 32) == as_text(log->entries[5].id.view()));
  const auto wrong_at_open = [&] {
    return Writer::open(folder.file(), test::key(kOperator))->index_was_wrong();
  };
  CHECK_FALSE(wrong_at_open());
  for (const std::string& text : {std::string(), right.substr(0, 100), right.substr(0, 200), right + "x",
                                  flipped(right, 3), flipped(right, 8 * 239), std::string(5'000, 'a')}) {
    put(index, text);
    CHECK(wrong_at_open());
    CHECK(content(index) == right);
  }
  REQUIRE(remove_file(index).ok());
  CHECK_FALSE(wrong_at_open());
  CHECK(content(index) == right);
  auto writer = Writer::open(folder.file(), test::key(kOperator));
  put(index, right.substr(0, 80));  // somebody else's hand, while the ledger is open
  REQUIRE(writer->append(numbered_deposit(9), 3'000).ok());
  CHECK(content(index).size() == 7 * kIndexRecordBytes);
  CHECK(content(index).starts_with(right));
}

TEST_CASE("an index that is a link, or cannot be written, harms nothing") {
  const LedgerFolder folder;
  fill(folder.file(), 5);
  const std::string index = index_path(folder.file());
  const std::string precious = folder.path + "/precious";
  put(precious, "precious");
  REQUIRE(remove_file(index).ok());
  REQUIRE(::symlink(precious.c_str(), index.c_str()) == 0);
  {
    auto writer = Writer::open(folder.file(), test::key(kOperator));
    REQUIRE(writer->append(numbered_deposit(9), 3'000).ok());
  }
  CHECK(content(precious) == "precious");
  REQUIRE(remove_file(index).ok());
  std::filesystem::create_directory(index);
  auto writer = Writer::open(folder.file(), test::key(kOperator));
  REQUIRE(writer->append(numbered_deposit(10), 3'000).ok());
  CHECK(find_entry(folder.file(), numbered_deposit(10).id)->entry);
}

TEST_CASE("an entry is looked up by a right index, and found without or in spite of a wrong one") {
  const LedgerFolder folder;
  fill(folder.file(), 40);
  const std::string index = index_path(folder.file());
  const std::string right = content(index);
  const auto look = [&](int number) { return *find_entry(folder.file(), numbered_deposit(number).id); };
  const auto is_found = [&](const LookUp& found, int number) {
    return found.entry && found.entry->statement.id == numbered_deposit(number).id &&
           found.entry->receipt.body.index == number + 1;
  };
  for (int number = 0; number < 40; ++number) {
    const LookUp found = look(number);
    REQUIRE(is_found(found, number));
    REQUIRE(found.index == IndexFound::kRight);
  }
  CHECK(find_entry(folder.file(), test::ledger_id())->entry);
  CHECK_FALSE(look(99).entry);
  CHECK(look(99).index == IndexFound::kRight);
  // The records of 7 and 8 exchanged: each points to the other's line, at the other's place.
  std::string exchanged = right;
  exchanged.replace(8 * 40, 32, right.substr(9 * 40, 32));
  exchanged.replace(9 * 40, 32, right.substr(8 * 40, 32));
  for (const std::string& text : {exchanged, right.substr(0, 8 * 40), flipped(right, 8 * (8 * 40 + 39)),
                                  flipped(right, 8 * (8 * 40 + 32)), flipped(right, 8 * (8 * 40 + 32) + 7),
                                  flipped(right, 8 * 8 * 40), right.substr(40) + right.substr(0, 40)}) {
    put(index, text);
    const LookUp found = look(7);
    CHECK(is_found(found, 7));
    CHECK(found.index == IndexFound::kWrong);
  }
  REQUIRE(remove_file(index).ok());
  CHECK(is_found(look(7), 7));
  CHECK(look(7).index == IndexFound::kNone);
}

TEST_CASE("a look-up believes neither line nor receipt that is not what it must be") {
  const LedgerFolder folder;
  fill(folder.file(), 10);
  const std::string entries = content(folder.file());
  forge_signature(folder.file(), 4);
  CHECK(find_entry(folder.file(), numbered_deposit(2).id).error().code == ErrorCode::kUnauthorised);
  put(folder.file(), entries);
  // An entry without a receipt does not count.
  put(folder.file(), entries + numbered_deposit(50).envelope + "\n");
  CHECK_FALSE(find_entry(folder.file(), numbered_deposit(50).id)->entry);
  // Receipts by another operator.
  const LedgerFolder other;
  REQUIRE(create(other.file(), *manifest::seal_any(test::ledger_policy(), test::key(2)), test::key(2), 1'000)
              .ok());
  {
    auto writer = Writer::open(other.file(), test::key(2));
    for (int i = 0; i < 10; ++i) REQUIRE(writer->append(numbered_deposit(i), 2'000).ok());
  }
  put(folder.file(), entries);
  put(receipts_path(folder.file()), content(receipts_path(other.file())));
  CHECK(find_entry(folder.file(), numbered_deposit(3).id).error().message.find("operator") !=
        std::string::npos);
}
