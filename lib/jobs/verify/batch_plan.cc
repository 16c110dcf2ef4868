#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "dgx/jobs/verify_batch.h"
#include "task/memory_needs.h"
#include "verify/checked_list.h"
#include "verify/replay_means.h"

namespace dgx::jobs {
namespace {

/// The memory that verifying a list takes at most. All of its statements are in memory, whatever the shard.
class ListMemory {
 public:
  explicit ListMemory(int threads) : threads_(threads), step_(program_memory(threads)) {}

  Status add(const Ready& proof) {
    constexpr std::int64_t kStatementBytes = 8192;  // of a task, a proof and their paths
    const Verification& v = *proof.verification;
    const manifest::Task& task = v.files.body();
    statements_ =
        add_up(statements_, kStatementBytes + std::ssize(v.proof.states) * std::ssize(Digest().bytes));
    data_.emplace(std::pair(proof.options.data, task.dataset.digest),
                  add_up(data_memory(task), server_memory(proof.options.data)));
    if (!seen_.emplace(v.files.program.get(), task.batch).second) return {};
    DGX_TRY(const std::int64_t all, replay_memory(v.files, threads_));
    step_ = std::max(step_, all - data_memory(task) + server_memory(proof.options.from));
    return {};
  }

  [[nodiscard]] std::int64_t bytes() const {
    std::vector<std::int64_t> sizes;
    for (const auto& [name, bytes] : data_) sizes.push_back(bytes);
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    sizes.resize(std::min(sizes.size(), ReplayMeans::kMostOpen));
    return std::accumulate(sizes.begin(), sizes.end(), add_up(step_, statements_), add_up);
  }

 private:
  int threads_;
  std::int64_t step_;
  std::int64_t statements_ = 0;
  std::map<std::pair<std::string, Digest>, std::int64_t> data_;      // by path and digest
  std::set<std::pair<const program::Program*, std::int64_t>> seen_;  // program and batch
};

}  // namespace

Result<BatchPlan> plan_batch(const BatchOptions& options, const RateSource& rate, const JobContext& context,
                             const std::function<Status(const BatchItem&)>& failed) {
  DGX_TRY(const auto operations, operations_per_second(rate, context));
  DGX_TRY(CheckedList list, CheckedList::open(options, context, VerifyNeeds::kPlan));
  DGX_TRY(const bool checked, list.check(CheckedList::Clock::time_point::max()));
  if (!checked) return Error{ErrorCode::kInterrupted, "stopped", "run it again"};
  BatchPlan out;
  const ShardName mine = list.shard().value_or(ShardName{0, 1});
  ShardDeal deal(mine.count, list.ready());
  const auto all = static_cast<std::size_t>(list.ready());
  for (const BatchItem& item : list.take_failures()) {
    if (deal.of_bad_line(item.line) != mine.index) continue;
    ++out.failed;
    if (!out.first_failure) out.first_failure = item.error->code;
    DGX_CHECK(failed(item));
  }
  out.proofs = out.failed;
  ListMemory memory(context.threads);
  std::map<std::int64_t, std::int64_t> states;  // bytes, by shard
  while (list.ready() > 0) {
    const Ready next = list.take_next();
    const Verification& v = *next.verification;
    DGX_CHECK(memory.add(next));
    const std::int64_t shard = deal.next(next.work);
    const std::int64_t bytes = multiply(2 * std::ssize(v.drawn), state_bytes(v.files));
    out.needs.state_bytes = std::max(out.needs.state_bytes, states[shard] = add_up(states[shard], bytes));
    if (shard != mine.index) continue;
    ++out.proofs;
    out.work = add_up(out.work, next.work);
  }
  out.needs.memory_bytes = memory.bytes();
  if (operations) out.needs.seconds = static_cast<double>(out.work) / *operations;
  if (!list.shard()) return out;
  out.needs.shards = mine.count;
  out.last = Needs{std::nullopt, out.needs.memory_bytes, out.needs.state_bytes};
  if (!operations) return out;
  out.needs.longest_seconds = static_cast<double>(deal.most()) / *operations;
  out.last->seconds = *out.needs.longest_seconds + kSecondsPerFile * static_cast<double>(all);
  return out;
}

}  // namespace dgx::jobs
