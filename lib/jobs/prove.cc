#include "dgx/jobs/prove.h"

#include <fmt/format.h>

#include <cmath>

#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/task_files.h"
#include "dgx/merkle/tree.h"
#include "dgx/protocol/verify.h"
#include "start_states.h"

namespace dgx::jobs {
namespace {

/// The run is this task's, begins where it must, and is finished.
Status check_run(const std::string& path, const bundle::RunIndex& index,
                 const manifest::Signed<manifest::Task>& task) {
  if (index.header.task != task.id) {
    return malformed(
        fmt::format("{}: is a run of task {}, not of {}", path, index.header.task.brief(), task.id.brief()));
  }
  if (index.header.program != task.body.program.root)
    return malformed(path + ": was made with another step program");
  DGX_TRY(const auto segments, protocol::Segments::of(task.body.steps, task.body.checkpoint_every));
  if (index.segments() < segments.count()) {
    return usage_error(
        fmt::format("{}: stands at step {} of {}", path, index.checkpoints.back().step, task.body.steps),
        "only a finished run can be proved; dgx-train continues it");
  }
  if (index.segments() > segments.count()) return malformed(path + ": has more checkpoints than the task");
  for (std::int64_t i = 0; i <= segments.count(); ++i) {
    const std::int64_t step = index.checkpoints[static_cast<std::size_t>(i)].step;
    if (step == segments.boundary(i)) continue;
    return malformed(fmt::format("{}: checkpoint {} is at step {}, the task has it at {}", path, i, step,
                                 segments.boundary(i)));
  }
  if (index.checkpoints.front().digest == task.body.initial.digest) return {};
  return malformed(path + ": does not begin at the task's initial state");
}

Result<float> loss_of(const State& state) {
  const Entry* const entry = find_entry(state, "loss");
  if (entry == nullptr || entry->tensor.dtype() != DType::kF32 || entry->tensor.count() != 1) {
    return malformed("the final state has no entry `loss`");
  }
  const float loss = entry->tensor.as<float>()[0];
  if (!std::isfinite(loss)) return malformed("the final state's loss is not finite");
  return loss;
}

std::vector<Digest> digests_in(const bundle::RunIndex& index) {
  std::vector<Digest> out;
  for (const bundle::Checkpoint& checkpoint : index.checkpoints) out.push_back(checkpoint.digest);
  return out;
}

/// What the recomputation of dropped checkpoints needs; executor is null where nothing is to be recomputed.
struct Recomputer {
  std::optional<TaskFiles> files;
  std::optional<bundle::Dataset> data;
  std::unique_ptr<exec::ExactExecutor> executor;
};

Result<Recomputer> make_recomputer(const OpenSampleOptions& options, std::span<const std::int64_t> dropped,
                                   const JobContext& context) {
  Recomputer out;
  if (dropped.empty()) return out;
  if (!options.data) {
    return usage_error(fmt::format("{}: the start states of these drawn segments were not kept: {}",
                                   options.run, listed(dropped)),
                       "give --data DATA.h5 to recompute them");
  }
  DGX_TRY(out.files, open_task(options.task, options.program, context.trust));
  DGX_TRY(out.data, open_dataset(*options.data, out.files->body()));
  DGX_TRY(out.executor, make_executor(*out.files, *out.data, context.threads));
  return out;
}

Status write_sample(const OpenSampleOptions& options, const JobContext& context, const ProofFiles& proof,
                    StartStates& starts, protocol::Executor* executor,
                    const std::vector<std::int64_t>& drawn) {
  std::vector<Digest> leaves;
  for (const Digest& state : proof.states) leaves.push_back(merkle::committed_state_leaf(state));
  const bundle::SampleHeader header{proof.proof.body.task, proof.proof.id, proof.proof.body.states.count};
  DGX_TRY(auto writer,
          bundle::SampleWriter::create(options.output, header, context.clobber, {context.threads}));
  context.progress.start("writing start states", std::ssize(drawn));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::int64_t segment = drawn[i];
    if (context.stop.requested()) return Error{ErrorCode::kInterrupted, "stopped; nothing was written", {}};
    DGX_TRY(const State state, starts.start(segment, executor, context.stop));
    DGX_TRY(const auto digests, bundle::digests_of(state, context.threads));
    DGX_TRY(auto path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(segment)));
    DGX_CHECK(writer.add({segment, proof.states[static_cast<std::size_t>(segment)], std::move(path)}, state,
                         digests));
    context.progress.update(static_cast<std::int64_t>(i) + 1);
  }
  context.progress.finish();
  return writer.commit();
}

}  // namespace

Result<ProveResult> prove(const ProveOptions& options, const JobContext& context) {
  if (options.output == "-") return usage_error("-o - is not possible: a proof has its states beside it");
  DGX_CHECK(refuse_existing(options.output, context.clobber));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(const auto run, bundle::RunReader::open(options.run));
  DGX_CHECK(check_run(options.run, run.index(), task));
  DGX_TRY([[maybe_unused]] const auto first, run.state(0, bundle::Check::kDigests, {context.threads}));
  DGX_TRY(const auto last, run.state(run.index().segments(), bundle::Check::kDigests, {context.threads}));

  const std::vector<Digest> states = digests_in(run.index());
  ProveResult out;
  out.drill = run.index().header.drill;
  out.proof = {task.id, manifest::states_root(states), states.front(), states.back(), task.body.steps, 0};
  DGX_TRY(out.proof.loss, loss_of(last.state));
  DGX_TRY(const auto sealed, manifest::seal(out.proof, key));
  out.id = sealed.id;
  DGX_CHECK(
      write_beside(beside(options.output, ".states"), manifest::encode_states(states), context.clobber));
  DGX_CHECK(write_file(options.output, sealed.envelope + "\n", context.clobber));
  return out;
}

Result<OpenSampleResult> open_sample(const OpenSampleOptions& options, const JobContext& context) {
  DGX_CHECK(choose_instruction_set(options.isa));
  DGX_CHECK(refuse_existing(options.output, context.clobber));
  DGX_TRY(const auto task, read_task(options.task, context.trust));
  DGX_TRY(const ProofFiles proof, open_proof(options.proof, task, std::nullopt));
  DGX_TRY(const auto beacon, read_signed<manifest::Beacon>(options.beacon, context.trust));
  auto assignment = protocol::assign(task, proof.proof, &beacon, beacon.key_id);
  if (!assignment.ok()) return within(options.beacon, std::move(assignment).error());
  OpenSampleResult out;
  DGX_TRY(out.segments, protocol::policy_draw(task.body, *assignment));

  DGX_TRY(const auto run, bundle::RunReader::open(options.run));
  DGX_CHECK(check_run(options.run, run.index(), task));
  if (digests_in(run.index()) != proof.states)
    return malformed(options.run + ": is not the run that was proved");
  DGX_TRY(const auto segments, protocol::Segments::of(task.body.steps, task.body.checkpoint_every));
  DGX_TRY(StartStates starts, StartStates::open(options.run, proof, segments, context.threads));
  const std::vector<std::int64_t> dropped = starts.to_recompute(out.segments);
  DGX_TRY(const Recomputer recomputer, make_recomputer(options, dropped, context));
  DGX_CHECK(write_sample(options, context, proof, starts, recomputer.executor.get(), out.segments));
  out.recomputed = std::ssize(dropped);
  out.recomputed_steps = starts.recomputed_steps();
  return out;
}

}  // namespace dgx::jobs
