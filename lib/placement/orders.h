#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "dgx/placement/machines.h"

namespace dgx::placement {

using Order = std::vector<std::size_t>;  ///< machines, by rank
using Random = std::mt19937_64;

inline constexpr std::size_t kMostExact = 8;     // machines that are tried in all orders
inline constexpr int kRandomOrders = 100;        // of which the mean is told
inline constexpr double kFirstTolerance = 0.05;  // a move may be worse by this share, at first

/// An order and its score; the first of equal ones is kept.
struct Best {
  double seconds = 0;
  Order order;

  void take(double other, const Order& with) {
    if (!order.empty() && other >= seconds) return;
    seconds = other;
    order = with;
  }
};

/// The best of all orders. `seconds` scores one.
template <class Score>
Best try_all(Score seconds, std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Best best;
  do {
    best.take(seconds(order), order);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

inline std::size_t below(std::size_t end, Random& random) { return static_cast<std::size_t>(random() % end); }

inline Order shuffled(Order order, Random& random) {
  for (std::size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[below(n, random)]);
  return order;
}

/// Threshold accepting: swaps two machines or reverses a range, and keeps what is not much worse, less and
/// less so. Without exponentials, so that all machines search alike.
template <class Score>
Best improve(Score score, const Order& start, int moves, Random& random) {
  Order now = start;
  double seconds = score(now);
  Best best{seconds, now};
  for (int move = 0; move < moves; ++move) {
    std::size_t a = below(now.size(), random), b = below(now.size(), random);
    if (a == b) continue;
    if (a > b) std::swap(a, b);
    Order next = now;
    if (random() % 2 == 0)
      std::swap(next[a], next[b]);
    else
      std::reverse(next.begin() + static_cast<std::ptrdiff_t>(a),
                   next.begin() + static_cast<std::ptrdiff_t>(b) + 1);
    const double tolerance = kFirstTolerance * (moves - move) / moves;
    const double found = score(next);
    if (found > seconds * (1 + tolerance)) continue;
    now = std::move(next);
    seconds = found;
    best.take(seconds, now);
  }
  return best;
}

/// Machines with their neighbours, region by region: places in `all`.
inline Order by_region(const Machines& machines, const Order& all) {
  Order out(all.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::ranges::stable_sort(out, {}, [&](std::size_t place) { return machines.machines[all[place]].region; });
  return out;
}

/// The fastest machines, so many, in the order of the file.
inline Order fastest_machines(const Machines& machines, std::size_t count) {
  Order all(machines.machines.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [&](std::size_t m) { return machines.machines[m].operations_per_second; });
  all.resize(count);
  std::ranges::sort(all);
  return all;
}

/// The network of these places, of that of all.
inline exchange::Network network_in(const Order& order, const exchange::Network& all) {
  exchange::Network out;
  out.ranks = all.ranks;
  out.links.reserve(all.links.size());
  for (const std::size_t a : order) {
    for (const std::size_t b : order) out.links.push_back(all.links[a * order.size() + b]);
  }
  return out;
}

/// As a plan tells it: at most 2^53, a hundred days.
inline std::int64_t nanoseconds(double seconds) { return std::llround(std::min(seconds * 1e9, 0x1p53)); }

}  // namespace dgx::placement
