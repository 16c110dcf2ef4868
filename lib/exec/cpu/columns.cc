// Columns: the ranks of a stage, when there are several pipelines, and their exchange behind the cells.
#include <bit>

#include "cpu/parts_by_stages.h"

namespace dgx::exec {

using kernels::ValueIndex;

/// The ranks of this stage between which running states are carried.
Neighbours PartsExecutor::ByStages::neighbours() const {
  Neighbours out{&ranks_, std::nullopt, std::nullopt};
  if (pipeline() > 0) out.before = rank_of(pipeline() - 1, stage());
  if (pipeline() + 1 < pipelines()) out.behind = rank_of(pipeline() + 1, stage());
  return out;
}

/// Begins to receive what the column gives: other pipelines' slices, and running states.
void PartsExecutor::ByStages::begin_column() {
  shares_.clear();
  if (pipelines() == 1) return;
  for (const ValueIndex v : own().shared) {
    if (is_zero(v)) {
      std::ranges::fill(home(v), std::uint8_t{0});
      continue;
    }
    for (int d = 0; d < pipelines(); ++d) {
      if (d == pipeline()) continue;
      const program::SliceRange& slices = slices_[static_cast<std::size_t>(d)];
      shares_.push_back(begin_receive(rank_of(d, stage()), v, range_of(v, slices)));
    }
  }
  expect_carries(neighbours(), own_slices_);
}

/// Gives the other pipelines this one's slices of what the tail reads.
void PartsExecutor::ByStages::give_shares() {
  std::vector<int> others;
  for (int d = 0; d < pipelines(); ++d)
    if (d != pipeline()) others.push_back(rank_of(d, stage()));
  for (const ValueIndex v : own().shared) {
    await_all(v);
    send(v, range_of(v, own_slices_.slices), others);
  }
}

/// Gives the column the values of class C, which the last pipeline has, along a binomial tree; then other
/// stages what they read of them.
void PartsExecutor::ByStages::share_sums() {
  const auto count = static_cast<unsigned>(pipelines());
  const auto number = (static_cast<unsigned>(pipeline()) + 1) % count;  // 0: the last pipeline
  const auto rank_at = [&](unsigned place) {
    return rank_of(static_cast<int>((place + count - 1) % count), stage());
  };
  std::vector<exchange::Request> expected;
  for (const ValueIndex v : own().sums) {
    if (number > 0)
      expected.push_back(ranks_.receive(rank_at(number - std::bit_floor(number)), to_number(v), home(v)));
  }
  for (std::size_t n = 0; n < own().sums.size(); ++n) {
    const ValueIndex v = own().sums[n];
    if (number > 0) wait_for(ranks_, expected[n]);
    for (unsigned width = number == 0 ? 1 : 2 * std::bit_floor(number); number + width < count; width *= 2)
      sent_.push_back(ranks_.send(rank_at(number + width), to_number(v), home(v)));
    send_moved(v, {0, bytes_of(at(v))});
  }
}

Status PartsExecutor::ByStages::join_column() {
  give_shares();
  DGX_CHECK(failed);
  if (!own().sums.empty()) {
    for (const ValueIndex v : sums_.received) await_all(v);
    DGX_CHECK(failed);
    DGX_CHECK(run(sums_, &own_slices_));
    end_carries(neighbours());
    DGX_CHECK(failed);
    share_sums();
  }
  for (const Arriving& share : shares_) end_receive(share);
  shares_.clear();
  return failed;
}

}  // namespace dgx::exec
