// A ledger of many small entries: the time to append them in one command, to read them with every check, and
// to replay them against the rules.
//
//   ledger_bench FOLDER [ENTRIES] [--json]   writes FOLDER/bench.jsonl, which must not exist; 100,000
//   deposits
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "dgx/ledger/ledger.h"
#include "dgx/protocol/settlement.h"
#include "row.h"
#include "statements.h"

namespace {

using namespace dgx;

manifest::Signed<manifest::Body> deposit(int number) {
  return *manifest::seal_any(
      manifest::Deposit{test::key_id(7), 1, fmt::format("payment {}", number), test::ledger_id()},
      test::key(1));
}

void must(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "ledger_bench: {}\n", status.error().message);
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result.ok()) must(Status(result.error()));
  return std::move(result).value();
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double wall_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Does the work once and prints its time by both clocks: the machine may be doing other work.
template <class Work>
void timed(const char* name, bool json, Work work) {
  const double wall = wall_seconds(), processor = processor_seconds();
  work();
  bench::print({fmt::format("ledger-{}", name), 1, "s", false, wall_seconds() - wall}, json);
  bench::print({fmt::format("ledger-{}-processor", name), 1, "s", false, processor_seconds() - processor},
               json);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = std::erase(arguments, "--json") > 0;
  if (arguments.empty() || arguments.size() > 2) {
    fmt::print(stderr, "usage: ledger_bench FOLDER [ENTRIES] [--json]\n");
    return 2;
  }
  const std::string path = arguments[0] + "/bench.jsonl";
  const int count = arguments.size() == 2 ? std::atoi(arguments[1].c_str()) : 100'000;
  std::vector<manifest::Signed<manifest::Body>> statements;
  for (int i = 0; i < count; ++i) statements.push_back(deposit(i));
  must(ledger::create(path, *manifest::seal_any(test::ledger_policy(), test::key(1)), test::key(1), 1));
  {
    auto writer = must(ledger::Writer::open(path, test::key(1)));
    timed("append", json, [&] { must(writer.append_all(statements, 2)); });
  }
  ledger::Log log;
  timed("read", json, [&] { log = must(ledger::read(path)); });
  timed("replay", json, [&] { must(protocol::Market::replay(log)); });
  return 0;
}
