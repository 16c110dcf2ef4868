#include <algorithm>
#include <chrono>
#include <iterator>

#include "dgx/protocol/settlement.h"
#include "settle/settle_files.h"
#include "task/file_watch.h"

namespace dgx::jobs {
namespace {

/// Reading a ledger that grows takes at most one part in so many of the time.
constexpr int kRestPerReading = 9;

/// The milliseconds until run_ledger() has work: until the next deadline has passed, or the next heartbeat is
/// due. nullopt if nothing waits in the ledger.
Result<std::optional<std::int64_t>> milliseconds_to_run(const LedgerWriter& options) {
  DGX_TRY(const LedgerView view, view_ledger(options.file));
  const protocol::MarketClock& clock = view.market.clock();
  std::optional<std::int64_t> next;
  for (const auto& [id, record] : view.market.tasks()) {
    const protocol::Standing stands = protocol::standing(record, clock.now());
    if (stands.state == protocol::TaskState::kSettled) continue;
    const std::int64_t at =
        stands.deadline_ms ? clock.receipt_time(*stands.deadline_ms) + 1 : clock.receipt_now();
    next = std::min(next.value_or(at), at);
  }
  if (!next) return next;
  *next = std::min(*next, clock.receipt_now() + protocol::heartbeat_ms(*view.market.policy()));
  *next = std::max<std::int64_t>(0, *next - options.clock());
  return next;
}

}  // namespace

Result<std::vector<Logged>> run_until_settled(const LedgerWriter& options,
                                              const std::optional<std::string>& task, const StopFlag& stop) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const std::string awaited = "the next deadline";
  LedgerWriter writer = options;
  writer.wait.stop = &stop;
  FileWatch watch({ledger::receipts_path(options.file.path)}, stop, std::nullopt);
  const FileWatch rest({}, stop, std::nullopt);
  DGX_TRY(std::vector<Logged> logged, run_ledger(writer, task));
  writer.after_pause = false;
  for (;;) {
    watch.look();
    const auto begin = FileWatch::Clock::now();
    DGX_TRY(const auto due, milliseconds_to_run(writer));
    if (!due) return logged;
    const auto reading = duration_cast<milliseconds>(FileWatch::Clock::now() - begin);
    const milliseconds pause{*due};
    const milliseconds resting = std::min(pause, kRestPerReading * reading);
    DGX_CHECK(rest.wait(awaited, resting));
    DGX_CHECK(watch.wait(awaited, pause - resting));
    // A statement of somebody else's may have brought a deadline nearer.
    if (*due > 0 && watch.has_changed()) continue;
    DGX_TRY(auto more, run_ledger(writer, task));
    std::move(more.begin(), more.end(), std::back_inserter(logged));
  }
}

}  // namespace dgx::jobs
