#include "dgx/protocol/economy.h"
#include "settle/bounds_svg.h"
#include "settle/settle_files.h"

namespace dgx::jobs {
namespace {

Result<PolicyBounds> bounds_with(const manifest::Policy& policy, const manifest::Task* task,
                                 const BoundsOptions& options) {
  PolicyBounds out{policy, {}, {}};
  DGX_TRY(out.bounds, protocol::bounds(policy, task, options.input));
  if (!options.picture) return out;
  DGX_TRY(const protocol::Economy economy, protocol::economy_of(policy, task));
  out.svg = bounds_svg(economy);
  return out;
}

}  // namespace

Result<PolicyBounds> bounds_of(const BoundsOptions& options) {
  if (!options.task_path) {
    DGX_TRY(const manifest::Policy policy, read_policy(*options.policy_path));
    return bounds_with(policy, nullptr, options);
  }
  DGX_TRY(const auto task, manifest::read_statement<manifest::Task>(*options.task_path));
  DGX_TRY(const manifest::Trust trusted, load_trust(options.trust));
  DGX_TRY([[maybe_unused]] const auto word,
          trusted.check(task.key_id, *options.task_path + ": the submitter"));
  auto out = bounds_with(task.body.policy, &task.body, options);
  if (!out.ok()) return within(*options.task_path, std::move(out).error());
  return out;
}

}  // namespace dgx::jobs
