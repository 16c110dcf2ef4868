#include "dgx/exchange/arrivals.h"

#include <algorithm>

namespace dgx::exchange {
namespace {

double latency_of(const Link& link) { return static_cast<double>(link.microseconds) * 1e3; }

/// Nanoseconds.
double time_on(const Link& link, std::int64_t bytes) {
  if (link.bits_per_second == 0) return 0;
  return std::floor(8e9 * static_cast<double>(bytes) / static_cast<double>(link.bits_per_second));
}

}  // namespace

Arrivals::Arrivals(const Network& network, int rank)
    : network_(network), rank_(rank), free_(static_cast<std::size_t>(network.ranks)) {}

Nanoseconds Arrivals::by_link(int to, std::int64_t bytes, Nanoseconds now) {
  if (to == rank_) return now;
  const Link& link = network_.link(rank_, to);
  Nanoseconds& free = free_[static_cast<std::size_t>(to)];
  free = later(std::max(now, free), time_on(link, bytes));
  return later(free, latency_of(link));
}

// Ranks are numbered from the root. In round k, each of the first 2^k sends to the one that is 2^k further.
std::vector<Nanoseconds> Arrivals::by_tree(std::int64_t bytes, Nanoseconds now) {
  const int ranks = network_.ranks;
  const auto rank_of = [&](int number) { return (rank_ + number) % ranks; };
  std::vector<Nanoseconds> out(static_cast<std::size_t>(ranks), now);  // by rank
  std::vector<Nanoseconds> idle = out;  // by rank: when it has sent what it was to send
  for (int width = 1; width < ranks; width *= 2)
    for (int number = 0; number < width && number + width < ranks; ++number) {
      const auto from = static_cast<std::size_t>(rank_of(number)),
                 to = static_cast<std::size_t>(rank_of(number + width));
      const Link& link = network_.link(rank_of(number), rank_of(number + width));
      if (number == 0) {
        out[to] = by_link(rank_of(width), bytes, idle[from]);
        idle[from] = free_[to];
      } else {
        idle[from] = later(idle[from], time_on(link, bytes));
        out[to] = later(idle[from], latency_of(link));
      }
      idle[to] = out[to];
    }
  return out;
}

}  // namespace dgx::exchange
