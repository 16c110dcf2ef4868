#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dgx/exchange/exchange.h"

namespace dgx::test {

using Exchanges = std::vector<std::unique_ptr<exchange::Exchange>>;

/// Runs `run(rank)`, which returns a Status, for every rank on a thread of its own. A rank that fails gives
/// up, so that no other waits for it. Returns the statuses by rank.
template <class Run>
std::vector<Status> run_ranks(const Exchanges& ranks, Run run) {
  std::vector<Status> out(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      out[r] = run(r);
      if (!out[r].ok()) ranks[r]->give_up(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

/// run_ranks() of ranks that must all succeed.
template <class Run>
void check_ranks(const Exchanges& ranks, Run run) {
  for (const Status& status : run_ranks(ranks, run)) CHECK((status.ok() ? "" : status.error().message) == "");
}

}  // namespace dgx::test
