#include <fmt/format.h>

#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/jobs/proof_files.h"
#include "dgx/jobs/prove.h"
#include "dgx/jobs/task_files.h"
#include "dgx/manifest/opening.h"
#include "dgx/merkle/tree.h"
#include "verify/opening.h"
#include "verify/proved_run.h"
#include "verify/start_states.h"
#include "verify/store.h"

namespace dgx::jobs {
namespace {

/// Everything needed to recompute dropped checkpoints; executor is null if there are none.
struct Recomputer {
  std::optional<TaskFiles> files;
  std::optional<bundle::OpenedDataset> data;
  std::unique_ptr<exec::StepExecutor> executor;
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
  DGX_TRY(out.data, open_task_dataset(*options.data, out.files->body(), context));
  DGX_TRY(out.executor,
          make_executor_on(ComputeDevice::kCpu, options.parts, *out.files, out.data->rows(), context));
  return out;
}

/// Writes the start states of the drawn segments, each with its path to the proof's root, and the entries
/// that they share. `executor` may be null if none has to be recomputed.
Status write_sample(AtomicFile target, const JobContext& context, const ProofFiles& proof,
                    StartStates& starts, bundle::Constants constants, program::Executor* executor,
                    const std::vector<std::int64_t>& drawn) {
  std::vector<Digest> leaves;
  for (const Digest& state : proof.states) leaves.push_back(merkle::committed_state_leaf(state));
  const bundle::SampleHeader header{proof.proof.body.task, proof.proof.id, proof.proof.body.states.count};
  DGX_TRY(auto writer, bundle::SampleWriter::create(std::move(target), header, {context.threads}, constants));
  context.progress.start("writing start states", std::ssize(drawn));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::int64_t segment = drawn[i];
    if (context.stop.requested()) return Error{ErrorCode::kInterrupted, "stopped; nothing was written", {}};
    DGX_TRY(const State state, starts.start(segment, executor, context.stop));
    DGX_TRY(const auto digests, bundle::digests_of(state, constants, context.threads));
    // Its constants are the run's: those that its last checkpoint names.
    if (digests.state != proof.states[static_cast<std::size_t>(segment)])
      return malformed(fmt::format("the start state of segment {} is not the one that was proved", segment),
                       "has a checkpoint or a constant entry of the run been replaced?");
    DGX_TRY(auto path, merkle::inclusion_path(leaves, static_cast<std::uint64_t>(segment)));
    DGX_CHECK(writer.add({segment, proof.states[static_cast<std::size_t>(segment)], std::move(path)}, state,
                         digests));
    context.progress.update(static_cast<std::int64_t>(i) + 1);
  }
  context.progress.finish();
  return writer.commit();
}

/// A task, its proof, and the run that was proved.
struct Proved {
  manifest::Signed<manifest::Task> task;
  ProofFiles proof;
  bundle::RunReader run;
};

/// Opens them, and checks that they belong together: kMalformed for another run's proof.
Result<Proved> open_proved(const std::string& task_path, const std::string& proof_path,
                           const std::string& run_path, const JobContext& context) {
  DGX_TRY(auto task, read_task(task_path, context.trust));
  DGX_TRY(ProofFiles proof, open_proof(proof_path, task, std::nullopt));
  DGX_TRY(auto run, bundle::RunReader::open(run_path));
  DGX_CHECK(check_run(run_path, run.index(), task));
  if (digests_in(run.index()) != proof.states)
    return malformed(run_path + ": is not the run that was proved");
  return Proved{std::move(task), std::move(proof), std::move(run)};
}

/// The segments to open: drawn by the beacon or round or, where none came, by the root in the proof's
/// receipt.
Result<protocol::OpeningDraw> read_draw(const OpenSampleOptions& options, const Proved& proved,
                                        const JobContext& context) {
  const auto& proof = proved.proof.proof;
  if (options.beacon) {
    DGX_TRY(const auto source, read_draw_source(*options.beacon, proof.id, context.trust));
    auto draw = protocol::drawn_after_source(proved.task, proof, source);
    if (!draw.ok()) return within(*options.beacon, std::move(draw).error());
    return draw;
  }
  DGX_TRY(const auto receipt, read_signed<manifest::Receipt>(*options.receipt, context.trust));
  if (receipt.body.statement != proof.id)
    return malformed(*options.receipt + ": is not the receipt of this proof");
  return protocol::drawn_after_proof(proved.task, proof, receipt.body.head.root);
}

/// Writes the drawn start states, recomputing what was not kept.
Result<OpenSampleResult> sample(const OpenSampleOptions& options, AtomicFile target, const Proved& proved,
                                const protocol::OpeningDraw& draw, const JobContext& context) {
  DGX_TRY(StartStates starts, StartStates::open(options.run, proved.proof, context.threads));
  const std::vector<std::int64_t> dropped = starts.to_recompute(draw.segments);
  DGX_TRY(const Recomputer recomputer, make_recomputer(options, dropped, context));
  DGX_TRY(bundle::Constants constants, proved.run.constants());
  DGX_CHECK(write_sample(std::move(target), context, proved.proof, starts, std::move(constants),
                         recomputer.executor.get(), draw.segments));
  OpenSampleResult out;
  out.segments = draw.segments;
  out.recomputed = std::ssize(dropped);
  out.recomputed_steps = starts.recomputed_steps();
  return out;
}

Status check_options(const OpenSampleOptions& options) {
  if (options.beacon.has_value() == options.receipt.has_value())
    return usage_error("one of --beacon and --receipt is required, to determine the draw",
                       "--receipt is for a proof for which no beacon or round came in time");
  if (options.store && options.key.path.empty())
    return usage_error("--key is required: an opening is signed");
  return {};
}

/// The place in the store, below the signer's folder: the given one, else `otherwise`.
Result<std::string> location_or(const std::optional<std::string>& given, std::string otherwise) {
  if (given && !manifest::is_location(*given))
    return usage_error(fmt::format(
        "--location: must be parts of letters, digits, '.', '_' and '-' between '/', at most {} characters",
        manifest::kMaxLocation));
  return given.value_or(std::move(otherwise));
}

/// The key that signs what the solver owes: the proof's.
Result<crypto::SecretKey> solver_key(const KeyFile& file, const manifest::Signed<manifest::Proof>& proof) {
  DGX_TRY(crypto::SecretKey key, read_key(file));
  if (crypto::key_id(key.public_key()) == proof.key_id) return key;
  return unauthorised(file.path + ": is not the key that signed the proof");
}

/// Fills an opening's folder in a store completely, before the opening is signed. A folder there that holds
/// this very opening stays, so that a killed call can be repeated.
Result<OpenSampleResult> fill(const OpenSampleOptions& options, const std::string& folder,
                              const Proved& proved, const protocol::OpeningDraw& draw,
                              const JobContext& context) {
  const auto& proof = proved.proof;
  if (exists(folder) && context.clobber == Clobber::kRefuse) {
    const Status checked = check_opening(folder, proved.task, proof.proof, draw, context.threads);
    if (checked.ok()) return OpenSampleResult{draw.segments, 0, 0, {}, {}, {}};
    if (checked.error().code != ErrorCode::kMissing)
      return Error{ErrorCode::kCannotCreate, folder + ": holds something else", "use --force to replace it"};
  }
  // Without --force, a file that is there is the beginning of this opening.
  const Clobber clobber = context.clobber == Clobber::kForce ? Clobber::kForce : Clobber::kReplace;
  DGX_TRY(AtomicFile target, AtomicFile::create(fmt::format("{}/{}", folder, kOpenedSample), clobber));
  DGX_CHECK(write_file(fmt::format("{}/{}", folder, kOpenedStates), manifest::encode_states(proof.states),
                       clobber));
  return sample(options, std::move(target), proved, draw, context);
}

/// Writes the final state to its place in a store. One that is there already, as after a call that was
/// killed, stays.
Status put_final(const std::string& path, const bundle::StoredState& last, const JobContext& context) {
  if (context.clobber == Clobber::kRefuse && exists(path)) {
    const auto found = bundle::read_state(path, bundle::Check::kDigests, {context.threads});
    if (found.ok() && found->digests.state == last.digests.state) return {};
    return Error{ErrorCode::kCannotCreate, path + ": holds something else", "use --force to replace it"};
  }
  return bundle::write_state(path, last.state, last.digests, context.clobber, {context.threads});
}

/// The sample itself, which needs no signature.
Result<OpenSampleResult> open_to_file(const OpenSampleOptions& options, const JobContext& context) {
  DGX_TRY(AtomicFile output, AtomicFile::create(options.output, context.clobber));
  DGX_TRY(const Proved proved, open_proved(options.task, options.proof, options.run, context));
  DGX_TRY(const protocol::OpeningDraw draw, read_draw(options, proved, context));
  return sample(options, std::move(output), proved, draw, context);
}

/// A folder in the operator's store, and the signed opening that names it.
Result<OpenSampleResult> open_in_store(const OpenSampleOptions& options, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const Proved proved, open_proved(options.task, options.proof, options.run, context));
  DGX_TRY(const protocol::OpeningDraw draw, read_draw(options, proved, context));
  const auto& proof = proved.proof.proof;
  DGX_TRY(const crypto::SecretKey key, solver_key(options.key, proof));
  DGX_TRY(const std::string location, location_or(options.location, "opening-" + proof.id.brief()));
  const Store store{*options.store};
  DGX_CHECK(store.make_folders(proof.key_id, fmt::format("{}/{}", location, kOpenedSample)));
  DGX_TRY(OpenSampleResult out, fill(options, store.at(proof.key_id, location), proved, draw, context));
  DGX_TRY(const auto sealed,
          manifest::seal(manifest::Opening{proof.body.task, proof.id, draw.after, location}, key));
  DGX_CHECK(output.write(sealed.envelope + "\n"));
  out.id = sealed.id;
  out.after = draw.after;
  out.location = location;
  return out;
}

}  // namespace

Result<OpenSampleResult> open_sample(const OpenSampleOptions& options, const JobContext& context) {
  DGX_CHECK(check_options(options));
  DGX_CHECK(choose_instruction_set(options.isa));
  return options.store ? open_in_store(options, context) : open_to_file(options, context);
}

Result<DeliverResult> deliver(const DeliverOptions& options, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const Proved proved, open_proved(options.task, options.proof, options.run, context));
  const auto& proof = proved.proof.proof;
  DGX_TRY(const crypto::SecretKey key, solver_key(options.key, proof));
  DGX_TRY(const std::string location,
          location_or(options.location, fmt::format("final-{}.h5", proof.id.brief())));
  const Store store{options.store};
  DGX_CHECK(store.make_folders(proof.key_id, location));
  DGX_TRY(const auto last,
          proved.run.state(proved.run.index().segments(), bundle::Check::kDigests, {context.threads}));
  DGX_CHECK(put_final(store.at(proof.key_id, location), last, context));
  DGX_TRY(
      const auto sealed,
      manifest::seal(manifest::Delivery{proof.body.task, proof.id, proof.body.final_state, location}, key));
  DGX_CHECK(output.write(sealed.envelope + "\n"));
  return DeliverResult{sealed.id, proof.body.final_state, location};
}

}  // namespace dgx::jobs
