#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dgx/core/files.h"
#include "dgx/core/process_limits.h"
#include "dgx/exchange/ranks.h"
#include "dgx/jobs/placement.h"
#include "dgx/program/cost.h"
#include "placement/read_machines.h"
#include "task/ready_ranks.h"

namespace dgx::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using exchange::Exchange;

constexpr int kPings = 20;
constexpr int kTransfers = 3;
constexpr std::size_t kTransferBytes = std::size_t{4} << 20;
constexpr std::int64_t kMostInteger = std::int64_t{1} << 53;
constexpr exchange::Tag kPing = 0, kPong = 1;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A rank's own measures.
struct Own {
  double operations_per_second;
  std::int64_t memory_bytes;
};

/// The files of a measurement, and an executor at the beginning of their task.
struct Setup {
  TaskFiles files;
  bundle::OpenedDataset data;
  std::unique_ptr<exec::ExactExecutor> executor;
};

Result<std::unique_ptr<Setup>> read_setup(const MeasureOptions& options, const JobContext& context) {
  DGX_TRY(TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(bundle::OpenedDataset data, open_task_dataset(options.data, files.body(), context));
  auto out = std::make_unique<Setup>(Setup{std::move(files), std::move(data), nullptr});
  DGX_TRY(const State state, initial_state(out->files, options.init));
  DGX_TRY(out->executor, make_executor(out->files, out->data.rows(), context.threads));
  DGX_CHECK(out->executor->load(state));
  DGX_CHECK(out->executor->step());  // takes its memory
  return out;
}

/// Makes steps of the whole batch for some seconds, but none that the task does not have.
Result<Own> measure_steps(const Setup& setup, double seconds, int processes) {
  const double operations = static_cast<double>(program::cost_of(*setup.files.program).total_operations);
  const Clock::time_point begin = Clock::now();
  std::int64_t steps = 0;
  while (steps == 0 ||
         (seconds_since(begin) < seconds && setup.executor->position() < setup.files.body().steps)) {
    DGX_CHECK(setup.executor->step());
    ++steps;
  }
  return Own{operations * static_cast<double>(steps) / seconds_since(begin), memory_limit(processes)};
}

/// Sends so many bytes to another rank and waits for them to come back, or the other way round. Returns the
/// seconds.
Result<double> there_and_back(Exchange& ranks, int other, bool begins, std::span<std::uint8_t> bytes) {
  const Clock::time_point begin = Clock::now();
  const auto send = [&](exchange::Tag tag) { return ranks.wait(ranks.send(other, tag, bytes)); };
  const auto receive = [&](exchange::Tag tag) { return ranks.wait(ranks.receive(other, tag, bytes)); };
  DGX_CHECK(begins ? send(kPing) : receive(kPing));
  DGX_CHECK(begins ? receive(kPong) : send(kPong));
  return seconds_since(begin);
}

Result<double> shortest(Exchange& ranks, int other, bool begins, std::span<std::uint8_t> bytes, int times) {
  double out = 0;
  for (int n = 0; n < times; ++n) {
    DGX_TRY(const double seconds, there_and_back(ranks, other, begins, bytes));
    out = n == 0 ? seconds : std::min(out, seconds);
  }
  return out;
}

/// The link to each rank of a lower number: pair after pair, so that no two disturb each other.
Result<std::vector<exchange::Link>> measure_links(Exchange& ranks) {
  std::vector<exchange::Link> out(static_cast<std::size_t>(ranks.ranks()));
  std::vector<std::uint8_t> bytes(kTransferBytes);
  const std::uint8_t done = 0;
  for (int a = 0; a < ranks.ranks(); ++a) {
    for (int b = 0; b < a; ++b) {
      if (ranks.rank() == a || ranks.rank() == b) {
        const int other = ranks.rank() == a ? b : a;
        const bool begins = ranks.rank() == a;
        DGX_TRY(const double ping, shortest(ranks, other, begins, std::span(bytes).first(1), kPings));
        DGX_TRY(const double transfer, shortest(ranks, other, begins, bytes, kTransfers));
        const double one_way = std::max((transfer - ping) / 2, 1e-9);
        out[static_cast<std::size_t>(b)] = {
            std::llround(ping / 2 * 1e6),
            std::clamp<std::int64_t>(std::llround(8.0 * kTransferBytes / one_way), 1, kMostInteger)};
      }
    }
    // The others wait here, instead of computing beside those that are measured.
    const auto all = exchange::gather_items(ranks, std::span<const std::uint8_t>(&done, 1));
    DGX_CHECK(status_of(all));
  }
  return out;
}

/// The machines of all ranks, and every two's link, which the rank of the higher number has measured.
placement::Machines machines_of(const Exchange& ranks, const std::vector<Own>& own,
                                const std::vector<exchange::Link>& links) {
  std::map<std::string, int> on_host;
  std::set<std::string> names;
  for (int r = 0; r < ranks.ranks(); ++r) ++on_host[machine_of_host(ranks.host_of(r))];
  placement::Machines out;
  for (int r = 0; r < ranks.ranks(); ++r) {
    const Own& measured = own[static_cast<std::size_t>(r)];
    std::string name = machine_of_host(ranks.host_of(r));
    if (on_host[name] > 1) name += fmt::format(":{}", r);
    names.insert(name);
    const auto rate = std::clamp<std::int64_t>(std::llround(measured.operations_per_second), 1, kMostInteger);
    out.machines.push_back(
        {std::move(name), "", rate, std::clamp<std::int64_t>(measured.memory_bytes, 1, kMostInteger)});
  }
  std::string region = "here";
  while (names.contains(region)) region += "+";
  for (placement::Machine& machine : out.machines) machine.region = region;
  const std::size_t count = out.machines.size();
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < a; ++b)
      out.connections.push_back({out.machines[a].name, out.machines[b].name, links[a * count + b]});
  }
  return out;
}

Result<MeasureResult> measure_on(Exchange& ranks, const MeasureOptions& options, const JobContext& context,
                                 bool& is_broken) {
  MeasureResult follower;
  follower.follows = true;
  Progress silent;
  const bool leads = ranks.rank() == 0;
  const JobContext own_context{context.threads, context.clobber, context.trust,
                               leads ? context.progress : silent, context.stop};
  // Rank 0's file; the others claim none.
  const std::string path = leads ? options.output : "-";
  Result<Output> output = Output::claim(path, context.clobber);
  Result<std::unique_ptr<Setup>> setup = read_setup(options, own_context);
  const Status ready = output.ok() ? status_of(setup) : status_of(output);
  Greeting greeting = Greeting::of_this_version();
  if (setup.ok()) greeting.task = (*setup)->files.task.id;
  DGX_TRY(const bool all_read, all_are_ready(ranks, ready, greeting, is_broken));
  if (!all_read) return follower;
  is_broken = true;
  const auto own = measure_steps(**setup, options.seconds, ranks.ranks_here());
  if (!own.ok()) return within(exchange::name_of(ranks, ranks.rank()), own.error());
  DGX_TRY(const auto all, exchange::gather_items(ranks, std::span<const Own>(&*own, 1)));
  DGX_TRY(const auto own_links, measure_links(ranks));
  DGX_TRY(const auto links, exchange::gather_items(ranks, std::span<const exchange::Link>(own_links)));
  is_broken = false;
  if (!leads) return follower;
  MeasureResult out{machines_of(ranks, all, links)};
  DGX_CHECK(output->write(placement::print_machines(out.machines)));
  return out;
}

}  // namespace

Result<MeasureResult> measure_machines(const MeasureOptions& options, const JobContext& context) {
  if (!(options.seconds > 0 && options.seconds <= 3600))
    return usage_error("--seconds must be above 0, at most 3600");
  return on_ranks<MeasureResult>([&](std::unique_ptr<Exchange>& ranks, bool& is_broken) {
    return measure_on(*ranks, options, context, is_broken);
  });
}

}  // namespace dgx::jobs
