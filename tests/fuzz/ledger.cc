// Ledgers: the input is the ledger's text, a line "--", and the receipts' text. The valid part of an accepted
// ledger re-encodes to a prefix of both files, and opening it for writing repairs exactly what it reports as
// torn.

#include "dgx/ledger/ledger.h"

#include "dgx/protocol/settlement.h"
#include "scratch.h"
#include "statements.h"
#include "target.h"

using namespace dgx;

namespace {

constexpr std::string_view kCut = "--\n";

manifest::Signed<manifest::Body> sealed(manifest::Body body) {
  return *manifest::seal_any(std::move(body), test::key(1));
}

std::string written(const std::string& path) {
  return fuzz::Scratch::read(path) + std::string(kCut) + fuzz::Scratch::read(ledger::receipts_path(path));
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string path = fuzz::scratch() / "seed.jsonl";
  require(ledger::create(path, sealed(test::ledger_policy()), test::key(1), 5).ok(),
          "a ledger can be created");
  std::vector<std::string> out = {written(path)};
  auto writer = ledger::Writer::open(path, test::key(1));
  for (const char* word : {"one", "two"}) {
    const auto receipt =
        writer->append(sealed(manifest::Deposit{test::key_id(2), 100, word, test::ledger_id()}), 7);
    require(receipt.ok(), "a ledger can be appended to");
    out.push_back(written(path));
  }
  require(writer->append(sealed(ledger::tree_head(writer->log(), 9)), 9).ok(), "a head can be logged");
  out.push_back(written(path));
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t cut = text.find(kCut);
  if (cut == std::string_view::npos) return 0;
  const std::string path = fuzz::scratch().write("input.jsonl", text.substr(0, cut));
  fuzz::scratch().write("input.receipts.jsonl", text.substr(cut + kCut.size()));
  protocol::Replay replay;
  const auto visit = [&](std::size_t index, const auto& statement, std::int64_t milliseconds) {
    replay.take(index, statement, milliseconds);
  };
  const auto log = ledger::read(path, {.visit = visit});
  if (!log.ok()) return 0;
  std::string counted;
  for (std::size_t i = 0; i < log->entries.size(); ++i) {
    const auto statement = log->statement(i);
    fuzz::require(statement.ok() && statement->id == log->entries[i].id, "an entry is read again");
    counted += statement->envelope + "\n";
  }
  fuzz::require(text.starts_with(counted), "an accepted ledger re-encodes to itself");
  fuzz::require(!log->torn.empty() || counted.size() == cut, "what does not count is called torn");
  if (log->operator_id() != test::key_id(1)) return 0;
  const auto writer = ledger::Writer::open(path, test::key(1));
  fuzz::require(writer.ok(), "a ledger that can be read can be continued");
  fuzz::require(fuzz::Scratch::read(path) == counted, "a repaired ledger holds what counted");
  return 0;
}
