// A ledger of many small entries: what reading them costs beside the signatures that it checks, a proof out
// of them, and an append of 10,000 in one call.
//
//   ledger_bench FOLDER [ENTRIES] [--threads N] [--json]
//
// Measures FOLDER/bench.jsonl, a policy and deposits, of which there shall be ENTRIES in all (100,000 unless
// given): what it lacks is made first. Also writes FOLDER/operator.pem, and FOLDER/more.jsonl: 10,000
// deposits that are not in it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "dgx/core/parallel.h"
#include "dgx/crypto/key_file.h"
#include "dgx/ledger/ledger.h"
#include "dgx/protocol/settlement.h"
#include "row.h"
#include "statements.h"

namespace {

using namespace dgx;
using Statement = manifest::Signed<manifest::Body>;

constexpr std::size_t kAtOnce = 10'000;

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

/// Wall time or, with DGX_BENCH_CLOCK=cpu, the process's: for one thread on a machine that does other work.
double now_seconds() {
  static const char* const chosen = std::getenv("DGX_BENCH_CLOCK");
  const bool process = chosen != nullptr && std::string_view(chosen) == "cpu";
  timespec t{};
  clock_gettime(process ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
template <class Work>
double seconds_of(Work work) {
  const double begin = now_seconds();
  work();
  return now_seconds() - begin;
}

/// Deposits with the numbers [first, first + count).
std::vector<Statement> deposits(std::size_t first, std::size_t count, int threads) {
  std::vector<std::optional<Statement>> made(count);
  must(for_each_index(count, threads, [&](std::size_t i) -> Status {
    const manifest::Deposit body{test::key_id(7), 1, fmt::format("payment {}", first + i), test::ledger_id()};
    DGX_TRY(made[i], manifest::seal_any(body, test::key(1)));
    return {};
  }));
  std::vector<Statement> out;
  for (auto& one : made) out.push_back(*std::move(one));
  return out;
}

/// Seconds that one core needs for two signature checks of statements as long as these.
double two_checks() {
  constexpr int kCount = 5'000;
  const std::string text = manifest::pre_authentication(std::string(600, 'x'));
  const auto signature = test::key(1).sign(as_bytes(text));
  const crypto::PublicKey key = test::key(1).public_key();
  return 2 / static_cast<double>(kCount) * seconds_of([&] {
           for (int i = 0; i < kCount; ++i) {
             if (!crypto::verify(key, as_bytes(text), signature)) std::exit(1);
           }
         });
}

/// Appends deposits until the ledger has `count` entries. Returns the seconds of the last call, of kAtOnce.
double fill(const std::string& path, std::size_t count, int threads) {
  if (!exists(path))
    must(ledger::create(path, *manifest::seal_any(test::ledger_policy(), test::key(1)), test::key(1), 1));
  auto writer = must(ledger::Writer::open(path, test::key(1), ledger::kMaxLedgerBytes, {}, {threads}));
  double last = 0;
  while (writer.log().entries.size() < count) {
    const std::size_t there = writer.log().entries.size();
    auto next = deposits(there, std::min(kAtOnce, count - there), threads);
    last = seconds_of([&] { must(writer.append_all(std::move(next), 2)); });
  }
  return last;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool json = std::erase(arguments, "--json") > 0;
  int threads = 1;
  if (const auto at = std::find(arguments.begin(), arguments.end(), "--threads");
      at != arguments.end() && at + 1 != arguments.end()) {
    threads = std::atoi((at + 1)->c_str());
    arguments.erase(at, at + 2);
  }
  if (arguments.empty() || arguments.size() > 2) {
    fmt::print(stderr, "usage: ledger_bench FOLDER [ENTRIES] [--threads N] [--json]\n");
    return 2;
  }
  const std::string path = arguments[0] + "/bench.jsonl";
  const std::size_t count =
      arguments.size() == 2 ? std::strtoull(arguments[1].c_str(), nullptr, 10) : 100'000;
  must(crypto::write_secret_key(arguments[0] + "/operator.pem", test::key(1), {}, Clobber::kReplace));
  std::string more;
  for (const Statement& one : deposits(count, kAtOnce, threads)) more += one.envelope + "\n";
  must(write_file(arguments[0] + "/more.jsonl", more, Clobber::kReplace));

  const std::string name = fmt::format("ledger-{}", count);
  const auto row = [&](const char* what, const char* unit, double value, std::string peer = {},
                       double peer_value = 0) {
    bench::print({name + what, threads, unit, false, value, 0, std::move(peer), peer_value}, json);
  };
  if (const double last = fill(path, count, threads); last > 0) row("-append-last-10000", "s", last);
  const double checks = two_checks();
  const double all_checks = checks * static_cast<double>(count) / threads;
  ledger::Log log;
  const double full = seconds_of([&] { log = must(ledger::read(path, {threads})); });
  row("-read", "s", full, "two checks an entry", all_checks);
  const ledger::CheckedPrefix checked = log.checked;
  const double again = seconds_of([&] { log = must(ledger::read(path, {threads, checked})); });
  if (log.unlike_before) must(malformed("the checked prefix does not fit"));
  row("-read-again", "s", again, "the first reading", full);
  protocol::Replay replay;
  const auto visit = [&](std::size_t index, const Statement& statement, std::int64_t milliseconds) {
    replay.take(index, statement, milliseconds);
  };
  const double replayed = seconds_of([&] { must(ledger::read(path, {threads, checked, visit})); });
  must(std::move(replay).finish());
  row("-read-again-and-replay", "s", replayed, "the first reading", full);
  constexpr int kProofs = 1'000;
  row("-inclusion-proof", "ms", 1'000.0 / kProofs * seconds_of([&] {
                                  for (std::size_t i = 0; i < kProofs; ++i)
                                    must(ledger::prove_inclusion(log, i * 7919 % count, count));
                                }));
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  row("-memory", "MiB", static_cast<double>(use.ru_maxrss) / 1024);
  return 0;
}
