#include "dgx/jobs/prove.h"

#include <fmt/format.h>

#include <cmath>

#include "dgx/bundle/run.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/protocol/segments.h"
#include "verify/proved_run.h"

namespace dgx::jobs {
namespace {

/// The loss of the last step, opened against the final state's digest.
Result<manifest::OpenedLoss> loss_of(const bundle::StoredState& last) {
  const Entry* const entry = find_entry(last.state, "loss");
  if (entry == nullptr || entry->tensor.dtype() != DType::kF32 || !entry->tensor.shape().empty()) {
    return malformed("the final state has no entry `loss`");
  }
  const float loss = entry->tensor.as<float>()[0];
  if (!std::isfinite(loss)) return malformed("the final state's loss is not finite");
  std::vector<merkle::NamedDigest> entries;
  for (std::size_t i = 0; i < last.state.size(); ++i)
    entries.push_back({last.state[i].name, last.digests.tensors[i]});
  return manifest::open_loss(entries, loss);
}

}  // namespace

Result<protocol::Segments> segments_of_run(const bundle::RunIndex& index, const manifest::Task& task) {
  const std::int64_t last = index.checkpoints.back().step;
  if (index.diverged) return protocol::Segments::of_diverged(last, task.checkpoint_every);
  return protocol::Segments::of(task.steps, task.checkpoint_every);
}

Status check_run(const std::string& path, const bundle::RunIndex& index,
                 const manifest::Signed<manifest::Task>& task) {
  if (index.header.task != task.id) {
    return malformed(
        fmt::format("{}: belongs to task {}, not {}", path, index.header.task.brief(), task.id.brief()));
  }
  if (index.header.program != task.body.program.root)
    return malformed(path + ": was made with another step program");
  DGX_TRY(const auto segments, segments_of_run(index, task.body));
  const auto states = std::ssize(index.checkpoints);
  if (states < segments.states()) {
    return not_allowed(
        fmt::format("{}: stands at step {} of {}", path, index.checkpoints.back().step, task.body.steps),
        "only a run that finished or diverged can be proved; dgx-train continues it");
  }
  if (states > segments.states()) return malformed(path + ": has more checkpoints than the task");
  for (std::int64_t i = 0; i < states; ++i) {
    const std::int64_t step = index.checkpoints[static_cast<std::size_t>(i)].step;
    if (step == segments.boundary(i)) continue;
    return malformed(
        fmt::format("{}: checkpoint {} is at step {}, must be at {}", path, i, step, segments.boundary(i)));
  }
  if (index.checkpoints.front().digest == task.body.initial.digest) return {};
  return malformed(path + ": does not begin at the task's initial state");
}

std::vector<Digest> digests_in(const bundle::RunIndex& index) {
  std::vector<Digest> out;
  for (const bundle::Checkpoint& checkpoint : index.checkpoints) out.push_back(checkpoint.digest);
  return out;
}

Result<ProveResult> prove(const ProveOptions& options, const JobContext& context) {
  if (options.output == "-")
    return usage_error("-o - is not possible: a proof's states are written next to it");
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(Output states_output, claim_beside(beside(options.output, ".states"), context.clobber));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  auto opened = bundle::RunReader::open(options.run);
  if (!opened.ok() && opened.error().code == ErrorCode::kMissing) {
    Error error = std::move(opened).error();
    error.hint = "a proof comes after the training: dgx-train makes the run";
    return error;
  }
  DGX_TRY(const auto run, std::move(opened));
  DGX_CHECK(check_run(options.run, run.index(), task));
  DGX_TRY([[maybe_unused]] const auto first, run.state(0, bundle::Check::kDigests, {context.threads}));
  DGX_TRY(const auto last, run.state(run.index().segments(), bundle::Check::kDigests, {context.threads}));

  const std::vector<Digest> states = digests_in(run.index());
  ProveResult out;
  out.drill = run.index().header.drill;
  out.proof = {task.id,
               manifest::states_root(states),
               states.front(),
               states.back(),
               run.index().checkpoints.back().step,
               {},
               run.index().diverged};
  DGX_TRY(out.proof.loss, loss_of(last));
  DGX_TRY(const auto sealed, manifest::seal(out.proof, key));
  out.id = sealed.id;
  DGX_CHECK(output.check());
  DGX_CHECK(states_output.write(manifest::encode_states(states)));
  DGX_CHECK(output.write(sealed.envelope + "\n"));
  return out;
}

}  // namespace dgx::jobs
