#include "train/state_source.h"

#include <filesystem>

#include "dgx/bundle/run.h"

namespace dgx::jobs {

Result<StateSource> read_source(const std::string& from, std::optional<std::int64_t> step, int threads) {
  if (!std::filesystem::is_directory(from)) {
    if (step) return usage_error("--step chooses a checkpoint of a run; " + from + " is not a run");
    DGX_TRY(auto stored, bundle::read_state(from, bundle::Check::kDigests, {threads}));
    return StateSource{std::move(stored), std::nullopt};
  }
  DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(from));
  std::int64_t checkpoint = run.index().segments();
  if (step) {
    const auto found = run.checkpoint_at(*step);
    if (!found.ok()) return within("--step " + std::to_string(*step), found.error());
    checkpoint = *found;
  }
  DGX_TRY(auto stored, run.state(checkpoint, bundle::Check::kDigests, {threads}));
  return StateSource{std::move(stored), run.index().header.task};
}

}  // namespace dgx::jobs
