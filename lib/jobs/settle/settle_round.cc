#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "dgx/core/parallel.h"
#include "dgx/crypto/random.h"
#include "dgx/crypto/sha256.h"
#include "dgx/jobs/round.h"
#include "settle/delay_store.h"
#include "settle/settle_files.h"
#include "task/file_watch.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Round;
using manifest::RoundSource;
using manifest::Signed;

constexpr std::size_t kMostPulseBytes = 65'536;
/// Steps between two looks at the stop flag, about a tenth of a second.
constexpr std::int64_t kSliceSteps = std::int64_t{1} << 20;
constexpr auto kBetweenSaves = std::chrono::seconds(10);

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The pulse in a file; errors name it.
Result<manifest::DrandPulse> read_pulse(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, kMostPulseBytes));
  auto pulse = manifest::parse_pulse(text);
  if (!pulse.ok()) return within(path, std::move(pulse).error());
  return pulse;
}

/// A call of dgx-settle round: what it found waiting, and what has come of it.
class Rounds {
 public:
  Rounds(const RoundOptions& options, const JobContext& context) : options_(options), context_(context) {}

  Result<RoundsResult> make() {
    DGX_TRY(key_, read_key(options_.writer.key));
    DGX_TRY(const LedgerView view, view_ledger(options_.writer.file));
    if (crypto::key_id(key_->public_key()) != view.log.operator_id())
      return unauthorised(fmt::format("{}: the key is not the operator's", options_.writer.file.path));
    ledger_ = view.log.id();
    policy_ = *view.market.policy();
    result_.head = view.summary.head;
    const std::int64_t now = std::max(options_.writer.clock(), view.log.now());
    for (const protocol::WaitingSlot& slot : view.market.slots_waiting()) {
      if (protocol::end_of_slot(slot.slot, policy_) <= now) over_.push_back(slot);
    }
    if (policy_.beacon_source == 0)
      return usage_error("this market has no rounds: its policy's beacon_source is 0");
    const bool delays = policy_.beacon_source == static_cast<std::int64_t>(RoundSource::kDelay);
    if (delays && options_.pulse)
      return usage_error("the market's rounds are delays: they are computed, not imported");
    if (!delays && options_.until_logged)
      return usage_error("the market's rounds are pulses: they are imported, not waited for");
    DGX_CHECK(delays ? compute_all() : import());
    return finish();
  }

 private:
  Status import() {
    if (!options_.pulse) return {};
    DGX_TRY(const manifest::DrandPulse pulse, read_pulse(*options_.pulse));
    std::vector<Round> rounds;
    for (const protocol::WaitingSlot& slot : over_) {
      if (protocol::pulse_number(slot.slot, policy_) == pulse.number)
        rounds.push_back({ledger_, slot.slot, slot.head, pulse, manifest::round_value(pulse)});
    }
    if (rounds.empty())
      return malformed(
          fmt::format("{}: no slot that is over waits for pulse {}", *options_.pulse, pulse.number));
    return log(std::move(rounds));
  }

  Status compute_all() {
    if (over_.empty()) return {};
    const std::int64_t behind = options_.writer.clock() - protocol::end_of_slot(over_.front().slot, policy_);
    context_.progress.note(fmt::format("slots to compute: {}, the first ended {} s ago", over_.size(),
                                       std::max<std::int64_t>(0, behind / 1'000)));
    DGX_TRY(const DelayStore store, DelayStore::open(options_.writer.file.path, context_.lock_wait));
    context_.progress.start("delays", std::ssize(over_) * policy_.beacon_steps);
    Status status = for_each_index(over_.size(), context_.threads,
                                   [&](std::size_t i) { return compute_one(store, over_[i]); });
    context_.progress.finish();
    return status;
  }

  Status compute_one(const DelayStore& store, const protocol::WaitingSlot& slot) {
    const DelayTask task{slot.slot, slot.head, manifest::delay_start(ledger_, slot.slot, slot.head),
                         policy_.beacon_steps};
    bool damaged = false;
    manifest::DelayChain chain{task.steps, store.load(task, damaged)};
    DGX_CHECK(extend(store, task, damaged, chain));
    const Digest value = manifest::round_value(chain);
    DGX_CHECK(log({Round{ledger_, slot.slot, slot.head, std::move(chain), value}}));
    return store.drop(task);
  }

  /// Computes the checkpoints that are missing.
  Status extend(const DelayStore& store, const DelayTask& task, bool damaged, manifest::DelayChain& chain) {
    const std::int64_t each = manifest::delay_interval(task.steps);
    std::int64_t done = std::min(task.steps, std::ssize(chain.checkpoints) * each);
    report(done, damaged ? task.slot : -1, 0, 0);
    auto saved = std::chrono::steady_clock::now();
    while (done < task.steps) {
      const auto begin = std::chrono::steady_clock::now();
      Digest at = chain.checkpoints.empty() ? task.start : chain.checkpoints.back();
      const std::int64_t steps = std::min(each, task.steps - done);
      for (std::int64_t some = 0; some < steps; some += kSliceSteps) {
        if (context_.stop.requested()) return stopped(store, task, chain);
        const std::int64_t slice = std::min(kSliceSteps, steps - some);
        at = crypto::sha256_chain(at, slice);
      }
      chain.checkpoints.push_back(at);
      done += steps;
      report(steps, -1, steps, seconds_since(begin));
      if (std::chrono::steady_clock::now() - saved < kBetweenSaves && done < task.steps) continue;
      DGX_CHECK(store.save(task, chain.checkpoints));
      saved = std::chrono::steady_clock::now();
    }
    return {};
  }

  Status stopped(const DelayStore& store, const DelayTask& task, const manifest::DelayChain& chain) const {
    DGX_CHECK(store.save(task, chain.checkpoints));
    return Error{ErrorCode::kInterrupted, "stopped; the same call goes on where it was", {}};
  }

  /// Adds to what has been done; `damaged` is the slot whose kept part was passed over, or -1.
  void report(std::int64_t done, std::int64_t damaged, std::int64_t computed, double seconds) {
    const std::lock_guard lock(mutex_);
    if (damaged >= 0)
      context_.progress.warning(
          fmt::format("slot {}: what was kept of its delay is damaged: begun anew", damaged));
    done_ += done;
    result_.steps += computed;
    seconds_ += seconds;
    context_.progress.update(done_);
  }

  Status log(std::vector<Round> rounds) {
    const std::lock_guard lock(mutex_);
    std::vector<Signed<Body>> statements;
    for (Round& round : rounds) {
      DGX_TRY(Signed<Body> sealed, manifest::seal_any(std::move(round), *key_));
      statements.push_back(std::move(sealed));
    }
    DGX_TRY(Appended appended, append_signed(options_.writer, std::move(statements)));
    std::move(appended.logged.begin(), appended.logged.end(), std::back_inserter(result_.logged));
    result_.head = appended.head;
    return {};
  }

  /// Adds the rounds that are still to come: the ledger may have grown meanwhile.
  Result<RoundsResult> finish() {
    DGX_TRY(const LedgerView view, view_ledger(options_.writer.file));
    const bool drand = policy_.beacon_source == static_cast<std::int64_t>(RoundSource::kDrand);
    for (const protocol::WaitingSlot& slot : view.market.slots_waiting()) {
      AwaitedRound one{slot.slot, protocol::end_of_slot(slot.slot, policy_), {}};
      if (drand) one.number = protocol::pulse_number(slot.slot, policy_);
      result_.awaited.push_back(one);
    }
    if (!result_.awaited.empty())
      result_.behind_ms =
          std::max<std::int64_t>(0, options_.writer.clock() - result_.awaited.front().ends_ms);
    if (seconds_ > 0) result_.steps_per_second = static_cast<double>(result_.steps) / seconds_;
    return std::move(result_);
  }

  const RoundOptions& options_;
  const JobContext& context_;
  std::optional<crypto::SecretKey> key_;
  Digest ledger_;
  manifest::Policy policy_;
  std::vector<protocol::WaitingSlot> over_;

  std::mutex mutex_;  ///< of what follows, and of the ledger
  std::int64_t done_ = 0;
  double seconds_ = 0;
  RoundsResult result_;
};

/// Sleeps until a slot is over.
Status wait_for_end(const AwaitedRound& slot, const RoundOptions& options, const JobContext& context) {
  const std::int64_t left = std::max<std::int64_t>(0, slot.ends_ms - options.writer.clock());
  const std::string awaited = fmt::format("the end of slot {}", slot.slot);
  return FileWatch({}, context.stop, std::nullopt).wait(awaited, std::chrono::milliseconds(left));
}

/// Adds what another look at the ledger has made.
void add(RoundsResult more, RoundsResult& out) {
  std::move(more.logged.begin(), more.logged.end(), std::back_inserter(out.logged));
  out.head = more.head;
  out.awaited = std::move(more.awaited);
  out.behind_ms = more.behind_ms;
  out.steps += more.steps;
  if (more.steps > 0) out.steps_per_second = more.steps_per_second;
}

/// An interval of a logged round.
struct Checked {
  std::size_t line = 0;  ///< of its round, from 1
  std::int64_t slot = 0;
  protocol::DelayInterval interval;
};

/// Leaves `count` of the intervals, drawn at random and in their order.
Status sample(std::vector<protocol::DelayInterval>& intervals, std::int64_t count) {
  for (std::size_t i = intervals.size(); i > 0 && std::ssize(intervals) > count; --i) {
    std::array<std::uint8_t, 8> random{};
    DGX_CHECK(crypto::random_bytes(random));
    std::uint64_t number = 0;
    for (const std::uint8_t byte : random) number = number << 8 | byte;
    intervals.erase(intervals.begin() + static_cast<std::ptrdiff_t>(number % intervals.size()));
  }
  return {};
}

}  // namespace

Result<RoundsResult> log_rounds(const RoundOptions& options, const JobContext& context) {
  std::optional<Output> output;
  if (!options.output.empty()) {
    DGX_TRY(Output claimed, Output::claim(options.output, context.clobber));
    output.emplace(std::move(claimed));
  }
  DGX_TRY(RoundsResult out, Rounds(options, context).make());
  while (options.until_logged && !out.awaited.empty()) {
    DGX_CHECK(wait_for_end(out.awaited.front(), options, context));
    DGX_TRY(RoundsResult more, Rounds(options, context).make());
    add(std::move(more), out);
  }
  if (output) {
    std::string text;
    for (const Logged& one : out.logged) text += one.statement.envelope + "\n";
    DGX_CHECK(output->write(text));
  }
  return out;
}

Result<RoundsCheck> check_rounds(const ledger::Log& log, std::optional<std::int64_t> count, int threads) {
  RoundsCheck out;
  std::vector<Checked> all;
  for (std::size_t i = 0; i < log.entries.size(); ++i) {
    if (log.entries[i].kind != manifest::Kind::kRound) continue;
    DGX_TRY(const auto statement, log.statement(i));
    const Round& round = std::get<Round>(statement.body);
    const auto* const chain = std::get_if<manifest::DelayChain>(&round.origin);
    ++(chain == nullptr ? out.pulses : out.delays);
    if (chain == nullptr) continue;
    auto intervals = protocol::intervals_of(round, *chain);
    if (count) DGX_CHECK(sample(intervals, *count));
    for (const protocol::DelayInterval& one : intervals) all.push_back({i + 1, round.slot, one});
  }
  std::vector<char> holds(all.size(), 0);
  DGX_CHECK(for_each_index(all.size(), threads, [&](std::size_t i) -> Status {
    const protocol::DelayInterval& one = all[i].interval;
    holds[i] = crypto::sha256_chain(one.from, one.steps) == one.to ? 1 : 0;
    return {};
  }));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const protocol::DelayInterval& one = all[i].interval;
    ++out.intervals;
    out.steps += one.steps;
    if (holds[i] != 0) continue;
    out.faults.push_back(fmt::format(
        "line {}: the round of slot {}: steps {} to {} do not lead from one checkpoint to the next",
        all[i].line, all[i].slot, one.first, one.first + one.steps));
  }
  return out;
}

}  // namespace dgx::jobs
