#include "dgx/core/files.h"
#include "dgx/jobs/simulate.h"
#include "settle/settle_files.h"

namespace dgx::jobs {

Result<Simulation> simulate_files(const SimulateOptions& options, const JobContext& context) {
  constexpr std::size_t kMostBytes = 64 * 1024;
  DGX_TRY(const manifest::Policy policy, read_policy(options.policy_path));
  Agents agents = standard_agents();
  if (options.agents_path) {
    DGX_TRY(const std::string text, read_file(*options.agents_path, kMostBytes));
    auto parsed = parse_agents(text);
    if (!parsed.ok()) return within(*options.agents_path, std::move(parsed).error());
    agents = *std::move(parsed);
  }
  return simulate(policy, agents, options, context);
}

}  // namespace dgx::jobs
