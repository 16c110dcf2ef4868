#pragma once

#include <thread>
#include <utility>
#include <vector>

#include "dgx/exec/leading_executor.h"
#include "stored_steps.h"

namespace dgx::test {

/// A rank that follows, in a thread.
class Follower {
 public:
  Follower(exchange::Exchange& ranks, const Stored& stored, const StopFlag& stop,
           exec::ExpertsAt experts = exec::ExpertsAt::kEveryRank, std::vector<std::int64_t> bounds = {})
      : thread_([&ranks, &stored, &stop, experts, bounds = std::move(bounds), this] {
          auto executor =
              exec::PartsExecutor::create_on(ranks, stored.program, stored.inputs(), 1, bounds, experts);
          status =
              executor.ok() ? exec::follow(ranks, **executor, stop) : Status(std::move(executor).error());
        }) {}
  void join() { thread_.join(); }

  Status status;

 private:
  std::thread thread_;
};

}  // namespace dgx::test
