#pragma once

#include <vector>

#include "cpu/parts_executor_impl.h"

namespace dgx::exec {

/// Makes all parts in this process, one after another. What they gather, the head makes before.
struct PartsExecutor::InTurn final : PartsExecutor::Impl {
  std::vector<Body> bodies;  ///< parts may share one

  Status plan_bodies() override;
  Status run_bodies() override;
  [[nodiscard]] std::vector<Body*> bodies_of_step() override;
  [[nodiscard]] double runs_of(const Body& body) const override;
  void make_room() override;

 private:
  Status add_body(const Part& part);
  void connect(const Part& part, Machine& machine);
  void keep_values(const Part& part, const Machine& machine);
  Status run(const Part& part);
};

}  // namespace dgx::exec
