#include "task/ready_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/version.h"
#include "dgx/crypto/sha256.h"
#include "dgx/exchange/ranks.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/jobs/mpi_module.h"

namespace dgx::jobs {

using exchange::Exchange;
using exchange::name_of;

namespace {

/// kMalformed, naming the first rank that has another version, task or plan than rank 0.
Status check_alike(const Exchange& ranks, const std::vector<Greeting>& all) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    const bool same_version = all[r].version == all.front().version;
    const bool same_plan = all[r].plan == all.front().plan;
    if (same_version && same_plan && all[r].task == all.front().task) continue;
    const std::string name = name_of(ranks, static_cast<int>(r));
    if (!same_version) return malformed(name + ": has another version of dgx than rank 0");
    if (!same_plan)
      return malformed(name + ": has another plan, network, drill or choice of experts than rank 0");
    return malformed(fmt::format("{}: has another task than rank 0, {} instead of {}", name,
                                 all[r].task.brief(), all.front().task.brief()));
  }
  return {};
}

}  // namespace

Greeting Greeting::of_this_version() {
  Greeting out;
  out.version = crypto::sha256(as_bytes(fmt::format("{} {}", dgx::version(), exec::kRanksTalk)));
  return out;
}

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

Result<std::unique_ptr<Exchange>> open_ranks() {
  DGX_TRY(std::unique_ptr<Exchange> ranks, open_mpi());
  DGX_CHECK(check_launched_with(ranks->ranks()));
  return ranks;
}

Error failed_rank(const Exchange& ranks, const std::string& why) {
  return within(name_of(ranks, ranks.rank()), internal_error(why));
}

void give_up_at_exit(std::unique_ptr<Exchange> ranks) {
  const auto give_up = [](int exit_code, void* exchange) {
    static_cast<Exchange*>(exchange)->give_up(exit_code);
  };
  if (::on_exit(give_up, ranks.get()) == 0) ranks.release();
}

}  // namespace dgx::jobs
