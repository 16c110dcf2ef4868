// dgx-threats(7), rows 15 and 26: an operator who rewrites their ledger after its head was signed. Every file
// is a correct ledger with valid receipts; only the earlier head convicts the operator.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "dgx/jobs/settle.h"
#include "dgx/ledger/ledger.h"
#include "statements.h"

namespace {

using namespace dgx;
using manifest::Body;
using manifest::Signed;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("dgx-history-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

Signed<Body> by_operator(Body body) { return *manifest::seal_any(std::move(body), test::key(1)); }
Signed<Body> deposit(const std::string& word) {
  return by_operator(manifest::Deposit{test::key_id(2), 100, word, test::ledger_id()});
}

/// Writes a ledger of the same operator and policy with these deposits, one a second.
void write_ledger(const std::string& path, const std::vector<std::string>& words) {
  REQUIRE(ledger::create(path, by_operator(test::ledger_policy()), test::key(1), 1'000).ok());
  auto writer = ledger::Writer::open(path, test::key(1));
  REQUIRE(writer.ok());
  std::int64_t now = 1'000;
  for (const std::string& word : words) REQUIRE(writer->append(deposit(word), now += 1'000).ok());
}

std::string write_head(const Folder& folder, const std::string& path) {
  const auto log = ledger::read(path);
  REQUIRE(log.ok());
  const auto head = by_operator(ledger::tree_head(*log, log->now()));
  const std::string out = folder / "head.json";
  REQUIRE(write_file(out, head.envelope + "\n", Clobber::kReplace).ok());
  return out;
}

/// The faults found by a check against the head; "" if there are none.
std::string faults(const std::string& path, const std::string& head) {
  const auto check = jobs::check_ledger({path, std::nullopt}, {.against = {head}}, std::nullopt);
  if (!check.ok()) return check.error().message;
  std::string out;
  for (const std::string& fault : check->faults) out += fault + "\n";
  return out;
}

}  // namespace

TEST_CASE("a ledger that grew agrees with every head that was signed before") {
  const Folder folder;
  write_ledger(folder / "a.jsonl", {"one", "two"});
  const std::string head = write_head(folder, folder / "a.jsonl");
  write_ledger(folder / "b.jsonl", {"one", "two", "three"});
  CHECK(faults(folder / "a.jsonl", head).empty());
  CHECK(faults(folder / "b.jsonl", head).empty());
}

TEST_CASE("a ledger rebuilt whole, correctly signed, contradicts the head that was exported") {
  const Folder folder;
  write_ledger(folder / "a.jsonl", {"one", "two", "three"});
  const std::string head = write_head(folder, folder / "a.jsonl");
  const std::vector<std::vector<std::string>> histories = {{"one", "two"},
                                                           {"one", "three", "two"},
                                                           {"one", "two", "other"},
                                                           {"two", "three"},
                                                           {"one", "two", "other", "three"}};
  for (std::size_t i = 0; i < histories.size(); ++i) {
    INFO("history " << i);
    const std::string path = folder / ("b" + std::to_string(i) + ".jsonl");
    write_ledger(path, histories[i]);
    REQUIRE(ledger::read(path).ok());
    CHECK_FALSE(faults(path, head).empty());
  }
}

TEST_CASE("a receipt convicts an operator who drops the entry it is for") {
  const Folder folder;
  write_ledger(folder / "a.jsonl", {"one"});
  auto writer = ledger::Writer::open(folder / "a.jsonl", test::key(1));
  REQUIRE(writer.ok());
  const auto receipt = writer->append(deposit("two"), 5'000);
  REQUIRE(receipt.ok());
  REQUIRE(write_file(folder / "receipt.json", receipt->envelope + "\n", Clobber::kReplace).ok());
  CHECK(faults(folder / "a.jsonl", folder / "receipt.json").empty());
  write_ledger(folder / "b.jsonl", {"one", "three"});
  CHECK_FALSE(faults(folder / "b.jsonl", folder / "receipt.json").empty());
}

TEST_CASE("an entry put in, taken out or moved in the files alone is refused when they are read") {
  const Folder folder;
  const std::string path = folder / "a.jsonl";
  write_ledger(path, {"one", "two", "three"});
  const auto whole = read_file(path, 1 << 20);
  const auto receipts = read_file(ledger::receipts_path(path), 1 << 20);
  REQUIRE(whole.ok());
  REQUIRE(receipts.ok());
  const auto lines = [](const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at) + 1;
      out.push_back(text.substr(at, end - at));
      at = end;
    }
    return out;
  };
  const auto reads = [&](std::vector<std::string> entries, std::vector<std::string> words) {
    std::string first, second;
    for (const std::string& line : entries) first += line;
    for (const std::string& line : words) second += line;
    REQUIRE(write_file(path, first, Clobber::kReplace).ok());
    REQUIRE(write_file(ledger::receipts_path(path), second, Clobber::kReplace).ok());
    return ledger::read(path).ok();
  };
  const auto e = lines(*whole), r = lines(*receipts);
  REQUIRE(e.size() == 4);
  CHECK(reads(e, r));
  CHECK_FALSE(reads({e[0], e[2], e[3]}, {r[0], r[2], r[3]}));
  CHECK_FALSE(reads({e[0], e[2], e[1], e[3]}, {r[0], r[2], r[1], r[3]}));
  CHECK_FALSE(reads({e[0], e[2], e[1], e[3]}, r));
  CHECK_FALSE(reads({e[0], e[1], e[1], e[2], e[3]}, {r[0], r[1], r[1], r[2], r[3]}));
  CHECK_FALSE(reads({e[1], e[2], e[3]}, {r[1], r[2], r[3]}));
}
