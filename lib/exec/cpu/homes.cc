// Experts at home: what goes to the rank that has one, and back, and its entries.
#include <algorithm>
#include <utility>

#include "cpu/inputs.h"
#include "cpu/parts_by_ranks.h"
#include "dgx/program/experts.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;
using program::Classes;
using program::HomeMove;

namespace {

/// True if the value goes to this home, which needs all of it.
bool goes_to(const HomeMove& move, int home) { return std::ranges::binary_search(move.homes, home); }

}  // namespace

bool PartsExecutor::ByRanks::has_entries_at_home() const {
  const auto entries = program::state_inputs(*program);
  return std::ranges::any_of(entries,
                             [this](ValueIndex v) { return classes.home_of(v) != Classes::kEveryRank; });
}

/// Finds what is moved behind each phase; the same on all ranks.
void PartsExecutor::ByRanks::plan_moves(const kernels::ByValue<std::size_t>& waits) {
  moves_.resize(waits.empty() ? 0 : *std::ranges::max_element(waits) + 1);
  for (program::HomeMove& move : program::moves_of(*program, classes)) {
    moved_.insert(move.value);
    moves_[waits[move.value]].push_back(std::move(move));
  }
  messages_ = std::vector(moves_.size(), exchange::RowMessages(ranks_));
}

/// The bytes of a rank's slices in a whole value.
std::span<std::uint8_t> PartsExecutor::ByRanks::slices_of(ValueIndex v, std::uint8_t* all, int rank) const {
  const std::int64_t each = bytes_of(at(v)) / classes.slices;
  const program::SliceRange& slices = parts[static_cast<std::size_t>(rank)].slices;
  return {all + each * slices.begin, static_cast<std::size_t>(each * (slices.end - slices.begin))};
}

/// Calls f(rank) for every rank but this one.
template <class F>
void PartsExecutor::ByRanks::each_other(F f) const {
  for (int rank = 0; rank < ranks_.ranks(); ++rank) {
    if (rank != ranks_.rank()) f(rank);
  }
}

/// The bytes of what the last dimension of a value has, or of an element.
std::size_t PartsExecutor::ByRanks::row_of(ValueIndex v) const {
  const Shape& shape = at(v).shape;
  const std::int64_t elements = shape.size() > 1 ? shape.back() : 1;
  return static_cast<std::size_t>(elements) * size_of(at(v).dtype);
}

/// Begins to receive what is moved here, in all phases of a step.
void PartsExecutor::ByRanks::expect_moves() {
  for (std::size_t n = 0; n < moves_.size(); ++n) {
    for (const HomeMove& move : moves_[n]) {
      const ValueIndex v = move.value;
      const int home = classes.home_of(v);
      if (home != Classes::kEveryRank && home != ranks_.rank())
        messages_[n].expect(home, to_number(v), received_.at(v).bytes(), row_of(v));
      if (!goes_to(move, ranks_.rank())) continue;
      each_other([&](int from) {
        const auto bytes = slices_of(v, whole.at(v).bytes().data(), from);
        messages_[n].expect(from, to_number(v), bytes, row_of(v));
      });
    }
  }
}

/// The memory of the messages of the phase that has the most: at most as much as they carry.
std::int64_t PartsExecutor::ByRanks::bytes_of_moves() const {
  std::int64_t most = 0;
  for (const auto& phase : moves_) {
    std::int64_t sum = 0;
    for (const HomeMove& move : phase) {
      const std::int64_t all = bytes_of(at(move.value)), each = all / classes.slices;
      const std::int64_t own_slices = each * (own().slices.end - own().slices.begin);
      const int home = classes.home_of(move.value), here = ranks_.rank();
      if (home != Classes::kEveryRank) {
        sum += home == here ? all - own_slices : own_slices;
      } else {
        const bool is_needed = goes_to(move, here);
        sum += is_needed ? all - own_slices : 0;
        sum += own_slices * (std::ssize(move.homes) - (is_needed ? 1 : 0));
      }
    }
    most = std::max(most, sum);
  }
  return most;
}

/// Sends what a phase has made: the own slices to homes, or from this home to each rank its slices.
void PartsExecutor::ByRanks::send_moves(std::size_t phase) {
  exchange::RowMessages& messages = messages_[phase];
  for (const HomeMove& move : moves_[phase]) {
    const ValueIndex v = move.value;
    const int home = classes.home_of(v);
    if (home != Classes::kEveryRank && home != ranks_.rank()) continue;
    std::uint8_t* const made = memory_of_kept(moving_.at(v));
    const std::size_t own_bytes = slices_of(v, made, ranks_.rank()).size();
    each_other([&](int to) {
      if (home == ranks_.rank())
        messages.send(to, to_number(v), slices_of(v, made, to), row_of(v));
      else if (goes_to(move, to))
        messages.send(to, to_number(v), {made, own_bytes}, row_of(v));
    });
  }
}

/// Waits for what is moved behind a phase.
Status PartsExecutor::ByRanks::end_moves(std::size_t phase) {
  wait_for([&] { return messages_[phase].finish(); });
  return failed;
}

std::int64_t PartsExecutor::ByRanks::saved_bytes() const {
  std::int64_t sum = sparse_messages_.saved();
  for (const exchange::RowMessages& messages : messages_) sum += messages.saved();
  return sum;
}

/// Begins to give all ranks what experts make that their tails read.
void PartsExecutor::ByRanks::give_by_homes(std::vector<exchange::Request>& requests) {
  for (const ValueIndex v : given_by_homes_) {
    const std::span<std::uint8_t> bytes{given.at(v), static_cast<std::size_t>(bytes_of(at(v)))};
    requests.push_back(ranks_.broadcast(classes.home_of(v), bytes));
  }
}

/// Brings an entry that is not divided to rank 0, to `all` there; null on other ranks.
Status PartsExecutor::ByRanks::collect_entry(ValueIndex entry, Tensor* all) {
  const int home = std::max(classes.home_of(entry), 0);  // every rank has it: rank 0
  if (ranks_.rank() != home) {
    return all == nullptr ? Status() : ranks_.wait(ranks_.receive(home, to_number(entry), all->bytes()));
  }
  const auto slot = std::ranges::find(tail->entries, at(entry).source.name, &Step::EntrySlot::name);
  const Tensor now = tail->in_rows(*slot, slot->current.view());
  if (all == nullptr) return ranks_.wait(ranks_.send(0, to_number(entry), now.bytes()));
  std::ranges::copy(now.bytes(), all->bytes().begin());
  return {};
}

}  // namespace dgx::exec
