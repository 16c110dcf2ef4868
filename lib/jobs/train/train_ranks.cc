// A training in several processes: what they agree on before they begin, and how they end together.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "dgx/core/version.h"
#include "dgx/crypto/sha256.h"
#include "dgx/exchange/ranks.h"
#include "dgx/jobs/mpi_module.h"
#include "train/training_setup.h"

namespace dgx::jobs {
namespace {

using exchange::Exchange;
using exchange::name_of;

/// A rank's word before the ranks begin. All zero but `ready` where they have agreed on the rest before.
struct Greeting {
  std::uint8_t ready = 0;
  Digest version{}, task{};
};

/// kMalformed, naming the first rank that has another version or task than rank 0.
Status check_alike(const Exchange& ranks, const std::vector<Greeting>& all) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    const bool same_version = all[r].version == all.front().version;
    if (same_version && all[r].task == all.front().task) continue;
    const std::string name = name_of(ranks, static_cast<int>(r));
    if (!same_version) return malformed(name + ": has another version of dgx than rank 0");
    return malformed(fmt::format("{}: has another task than rank 0, {} instead of {}", name,
                                 all[r].task.brief(), all.front().task.brief()));
  }
  return {};
}

/// Waits until all ranks have said whether they can begin. False if another cannot, whose error says why; the
/// error of this rank, with its name, if it cannot itself. Where rank 0 cannot either, it alone says why.
Result<bool> all_are_ready(Exchange& ranks, const Status& own, Greeting greeting, bool& is_broken) {
  greeting.ready = own.ok() ? 1 : 0;
  is_broken = true;
  DGX_TRY(const auto all, exchange::gather_items(ranks, std::span<const Greeting>(&greeting, 1)));
  is_broken = false;
  if (!own.ok() && ranks.rank() > 0 && all.front().ready == 0) return false;
  if (!own.ok()) return within(name_of(ranks, ranks.rank()), own.error());
  if (!std::ranges::all_of(all, &Greeting::ready)) return false;
  const Status alike = check_alike(ranks, all);
  if (alike.ok() || ranks.rank() != 0) return alike.ok();
  return alike.error();
}

template <class T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

Greeting greeting_of(const Result<TrainingSetup>& setup) {
  Greeting out;
  out.version = crypto::sha256(as_bytes(version()));
  if (setup.ok()) out.task = setup->files.task.id;
  return out;
}

/// The training of rank 0, which has the run.
Result<TrainResult> lead(Exchange& ranks, std::unique_ptr<exec::PartsExecutor> executor,
                         const TrainingSetup& setup, const TrainOptions& options, const JobContext& context,
                         bool& is_broken) {
  StopFlag stop(&context.stop);
  exec::LeadingExecutor leading(
      ranks, std::move(executor),
      {.asked = [&stop] { stop.request(); },
       .slow = [&context](const std::string& words) { context.progress.warning(words); }});
  JobContext with_stop{context.threads, context.clobber,  context.trust, context.progress, stop,
                       context.save,    context.lock_wait};
  Result<TrainResult> result = train_with(setup, leading, options, with_stop);
  is_broken = leading.is_broken();
  if (!result.ok()) return result;
  is_broken = true;
  DGX_TRY(result->ranks, leading.finish());
  is_broken = false;
  return result;
}

/// Trains, as rank 0 or as one that follows. `is_broken` says whether an error is this rank's alone, so that
/// the others would wait for it.
Result<TrainResult> train_on(Exchange& ranks, const TrainOptions& options, const JobContext& context,
                             bool& is_broken) {
  TrainResult follower;
  follower.follows = true;
  Progress silent;
  const bool leads = ranks.rank() == 0;
  const JobContext own{context.threads, context.clobber, context.trust, leads ? context.progress : silent,
                       context.stop};
  const Result<TrainingSetup> setup = read_setup(options, own);
  DGX_TRY(const bool all_read, all_are_ready(ranks, status_of(setup), greeting_of(setup), is_broken));
  if (!all_read) return follower;
  Result<std::unique_ptr<exec::PartsExecutor>> executor =
      make_executor_among(ranks, setup->files, setup->data.rows(), own, setup->logged.all());
  DGX_TRY(const bool all_made, all_are_ready(ranks, status_of(executor), {}, is_broken));
  if (!all_made) return follower;
  if (leads) return lead(ranks, std::move(executor).value(), *setup, options, context, is_broken);
  const Status followed = exec::follow(ranks, **executor, context.stop);
  if (followed.ok()) return follower;
  is_broken = true;
  return within(name_of(ranks, ranks.rank()), followed.error());
}

/// train_on(), of which an exception, as where no memory is left, is an error of this rank alone: it must not
/// get as far as the exchange's end, where MPI waits for the others.
Result<TrainResult> without_exceptions(Exchange& ranks, const TrainOptions& options,
                                       const JobContext& context, bool& is_broken) {
  const auto failed = [&](const std::string& why) -> Result<TrainResult> {
    is_broken = true;
    return within(name_of(ranks, ranks.rank()), internal_error(why));
  };
  try {
    return train_on(ranks, options, context, is_broken);
  } catch (const std::bad_alloc&) {
    return failed("not enough memory");
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace

Result<TrainResult> train_on_ranks(const TrainOptions& options, const JobContext& context) {
  DGX_TRY(std::unique_ptr<Exchange> ranks, open_mpi());
  DGX_CHECK(check_launched_with(ranks->ranks()));
  bool is_broken = false;
  Result<TrainResult> result = without_exceptions(*ranks, options, context, is_broken);
  if (result.ok() || !is_broken) return result;
  // The others wait for messages: they end with this process, once it has said why.
  const auto give_up = [](int exit_code, void* exchange) {
    static_cast<Exchange*>(exchange)->give_up(exit_code);
  };
  if (::on_exit(give_up, ranks.get()) == 0) ranks.release();
  return result;
}

}  // namespace dgx::jobs
