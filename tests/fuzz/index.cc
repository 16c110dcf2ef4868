// The index beside a ledger: whatever it holds, a look-up finds what the ledger has, and a writer leaves the
// index that belongs to it.

#include "dgx/ledger/index.h"

#include "dgx/ledger/ledger.h"
#include "scratch.h"
#include "statements.h"
#include "target.h"

using namespace dgx;

namespace {

manifest::Signed<manifest::Body> sealed(manifest::Body body) {
  return *manifest::seal_any(std::move(body), test::key(1));
}

manifest::Signed<manifest::Body> deposit(int number) {
  return sealed(manifest::Deposit{test::key_id(2), 100, std::to_string(number), test::ledger_id()});
}

/// A ledger of five entries, made once.
const std::string& path() {
  static const std::string out = [] {
    std::string made = fuzz::scratch() / "L.jsonl";
    fuzz::require(ledger::create(made, sealed(test::ledger_policy()), test::key(1), 5).ok(), "it is created");
    auto writer = ledger::Writer::open(made, test::key(1));
    fuzz::require(writer->append_all({deposit(0), deposit(1), deposit(2), deposit(3)}, 7).ok(),
                  "it is filled");
    return made;
  }();
  return out;
}

const std::string& right() {
  static const std::string out = fuzz::Scratch::read(ledger::index_path(path()));
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() { return {right(), right().substr(0, 100), right() + right()}; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string wanted = right();
  fuzz::scratch().write("L.index", fuzz::text_of(data, size));
  for (const int number : {0, 3}) {
    const auto found = ledger::find_entry(path(), deposit(number).id);
    fuzz::require(found.ok() && found->entry && found->entry->statement.id == deposit(number).id &&
                      found->entry->receipt.body.index == number + 1,
                  "an entry is found in spite of its index");
  }
  const auto writer = ledger::Writer::open(path(), test::key(1));
  fuzz::require(writer.ok() && fuzz::Scratch::read(ledger::index_path(path())) == wanted,
                "a writer makes the index right");
  return 0;
}
