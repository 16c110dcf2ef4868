#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dgx/exchange/arrivals.h"
#include "dgx/placement/forecast.h"

namespace dgx::placement {

/// The ranks of a step while it is played: each has a clock of its own, and links to all others.
class Clocks {
 public:
  static constexpr std::int64_t kOrderBytes = 1;    // of rank 0, before a step
  static constexpr std::int64_t kReportBytes = 16;  // of each rank, behind it

  Clocks(std::span<const std::int64_t> rates, const exchange::Network& network)
      : rates_(rates), now_(rates.size()), told_(rates.size()), expected_(rates.size()) {
    for (std::size_t r = 0; r < rates.size(); ++r) links_.emplace_back(network, static_cast<int>(r));
  }

  [[nodiscard]] std::size_t ranks() const { return now_.size(); }
  [[nodiscard]] Forecast result() {
    return {static_cast<double>(*std::ranges::max_element(now_)) * 1e-9, std::move(told_)};
  }

  void compute(std::size_t r, double operations) {
    const double seconds = operations / static_cast<double>(rates_[r]);
    told_[r].computes += seconds;
    now_[r] = exchange::later(now_[r], seconds * 1e9);
  }
  void wait(std::size_t r, exchange::Nanoseconds until) {
    if (until <= now_[r]) return;
    told_[r].waits += static_cast<double>(until - now_[r]) * 1e-9;
    now_[r] = until;
  }
  /// The time at which what a rank sends now is there.
  exchange::Nanoseconds send(std::size_t from, std::size_t to, std::int64_t bytes) {
    told_[from].sent += bytes;
    return links_[from].by_link(static_cast<int>(to), bytes, now_[from]);
  }
  /// Messages that begin here are waited for by wait_for_all().
  void begin_message(std::size_t from, std::size_t to, std::int64_t bytes) {
    expect(to, send(from, to, bytes));
  }
  void begin_broadcast(std::size_t root, std::int64_t bytes) {
    if (ranks() == 1) return;
    told_[root].broadcast += bytes;
    const auto arrives = links_[root].by_tree(bytes, now_[root]);
    for (std::size_t r = 0; r < ranks(); ++r) expect(r, arrives[r]);
  }
  /// A rank's share of a gather.
  void give_to_all(std::size_t r, std::int64_t bytes) {
    if (ranks() == 1) return;
    told_[r].gathered += bytes;
    for (std::size_t to = 0; to < ranks(); ++to)
      expect(to, links_[r].by_link(static_cast<int>(to), bytes, now_[r]));
  }
  /// Lets every rank wait for all that has begun to come there.
  void wait_for_all() {
    for (std::size_t r = 0; r < ranks(); ++r) wait(r, expected_[r]);
  }
  void broadcast(std::size_t root, std::int64_t bytes) {
    begin_broadcast(root, bytes);
    wait_for_all();
  }
  void gather_equal(std::int64_t bytes) {
    for (std::size_t r = 0; r < ranks(); ++r) give_to_all(r, bytes);
    wait_for_all();
  }

 private:
  void expect(std::size_t r, exchange::Nanoseconds arrives) {
    expected_[r] = std::max(expected_[r], arrives);
  }

  std::span<const std::int64_t> rates_;
  std::vector<exchange::Arrivals> links_;
  std::vector<exchange::Nanoseconds> now_;
  std::vector<RankForecast> told_;
  std::vector<exchange::Nanoseconds> expected_;  // when all that has begun to come is at each rank
};

}  // namespace dgx::placement
