#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "dgx/jobs/verify_batch.h"
#include "task/memory_needs.h"
#include "verify/checked_list.h"
#include "verify/replay_means.h"

namespace dgx::jobs {
namespace {

/// Adds the work of all that is ready to the plan; returns the memory that it takes at most.
Result<std::int64_t> take_plan(CheckedList& list, int threads, BatchPlan& out) {
  constexpr std::int64_t kStatementBytes = 8192;  // of a task, a proof and their paths
  std::map<std::pair<const program::Program*, std::int64_t>, std::int64_t> steps;  // by program and batch
  std::map<std::pair<std::string, Digest>, std::int64_t> data;                     // by path and digest
  std::int64_t statements = 0;
  while (list.ready() > 0) {
    const Ready next = list.take_next();
    const Verification& v = *next.verification;
    const manifest::Task& task = v.files.body();
    out.work += next.work;
    out.needs.state_bytes += 2 * std::ssize(v.drawn) * state_bytes(v.files);
    statements += kStatementBytes + std::ssize(v.proof.states) * std::ssize(Digest().bytes);
    data.emplace(std::pair(next.options.data, task.dataset.digest), data_memory(task));
    const auto [step, is_new] = steps.try_emplace({v.files.program.get(), task.batch}, 0);
    if (!is_new) continue;
    DGX_TRY(const std::int64_t all, replay_memory(v.files, threads));
    step->second = all - data_memory(task);
  }
  std::vector<std::int64_t> sizes;
  for (const auto& [name, bytes] : data) sizes.push_back(bytes);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.resize(std::min(sizes.size(), ReplayMeans::kMostOpen));
  std::int64_t most = 0;
  for (const auto& [program, bytes] : steps) most = std::max(most, bytes);
  return std::accumulate(sizes.begin(), sizes.end(), most + statements);
}

}  // namespace

Result<BatchPlan> plan_batch(const BatchOptions& options, const RateSource& rate, const JobContext& context,
                             const std::function<Status(const BatchItem&)>& failed) {
  DGX_TRY(const auto operations, operations_per_second(rate, context));
  DGX_TRY(CheckedList list, CheckedList::open(options, context, VerifyNeeds::kPlan));
  DGX_TRY(const bool checked, list.check(CheckedList::Clock::time_point::max()));
  if (!checked) return Error{ErrorCode::kInterrupted, "stopped", "run it again"};
  BatchPlan out;
  if (list.shard()) {
    const std::int64_t most = list.take_share(*list.shard());
    out.needs.shards = list.shard()->count;
    if (operations) out.needs.longest_seconds = static_cast<double>(most) / *operations;
  }
  for (const BatchItem& item : list.take_failures()) {
    ++out.failed;
    if (!out.first_failure) out.first_failure = item.error->code;
    DGX_CHECK(failed(item));
  }
  out.proofs = out.failed + list.ready();
  DGX_TRY(out.needs.memory_bytes, take_plan(list, context.threads, out));
  if (operations) out.needs.seconds = static_cast<double>(out.work) / *operations;
  return out;
}

}  // namespace dgx::jobs
