#include "dgx/jobs/submit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <variant>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/state.h"
#include "dgx/core/checked.h"
#include "dgx/core/text.h"
#include "dgx/jobs/ledger_name.h"
#include "dgx/jobs/task_files.h"
#include "dgx/kernels/order.h"
#include "dgx/lowering/lower.h"
#include "dgx/manifest/statement.h"
#include "dgx/program/averages.h"
#include "dgx/program/initial.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/estimate.h"
#include "submit/capture_model.h"
#include "submit/init_weights.h"
#include "submit/model_file.h"
#include "submit/same_task.h"
#include "submit/submit_cut.h"
#include "submit/submit_update.h"
#include "train/submit_data.h"

namespace dgx::jobs {
namespace {

/// A task has at least this many segments by default, so that a draw of a few percent has something to draw.
constexpr std::int64_t kSegments = 100;
/// The largest part of the training's work that checkpoints may add by default: one in this many.
constexpr std::int64_t kTrainingPerCheckpoints = 100;
/// A training of fewer operations, some 15 seconds of one core, counts as one of so many: nobody notices the
/// fraction of a second that its checkpoints take, but everybody that a verifier has nothing to draw.
constexpr std::int64_t kLeastTraining = 1'000'000'000'000;
/// The cost of a checkpoint in weighted operations, at the speed of matrix products: for each byte of the
/// state, which is copied, hashed, compressed and written; and for two small files and waiting for the disk
/// where the next checkpoint comes soon.
constexpr std::int64_t kOperationsPerStoredByte = 200;
constexpr std::int64_t kOperationsPerCheckpoint = 500'000'000;
constexpr std::size_t kMaxWeightsFileBytes = 64 * 1024;

/// The options that are texts, read; nothing of it depends on the data but `built_in`, which fitted()
/// completes.
struct Parsed {
  std::string model;  ///< a spec, or a file as the option names it
  std::optional<program::ModelSpec> built_in;
  program::LossSpec loss;
  program::OptimizerSpec optimizer;
  program::ScheduleText schedule;
  program::UpdateSpec update;
  std::optional<program::CutText> cut;
  manifest::Policy policy;
  std::optional<Digest> ledger;
};

/// Refuses what the man page names and this version does not have.
Status refuse_later(const SubmitOptions& options) {
  if (options.numerics == "native")
    return usage_error("--numerics native is not in this version", "use --numerics exact");
  if (options.numerics != "exact")
    return usage_error("--numerics is exact or native, not " + options.numerics);
  if (options.parent) return usage_error("--parent is not in this version");
  return {};
}

/// Replaces `weights=FILE` or `pos-weights=FILE`, a file of numbers, by `weights=1/2/0.5`.
Result<std::string> with_weights_of_file(const std::string& spec) {
  constexpr std::string_view kField = "weights=";
  const std::size_t field = spec.find(kField);
  if (field == std::string::npos) return spec;
  const std::size_t begin = field + kField.size();
  const std::size_t end = std::min(spec.find(',', begin), spec.size());
  const std::string value = spec.substr(begin, end - begin);
  if (value.find_first_not_of("0123456789.eE+-/") == std::string::npos) return spec;
  DGX_TRY(std::string list, read_file(value, kMaxWeightsFileBytes));
  for (char& c : list) {
    if (c == ',' || c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  std::string joined;
  std::istringstream words(list);
  for (std::string word; words >> word;) joined += (joined.empty() ? "" : "/") + word;
  return spec.substr(0, begin) + joined + spec.substr(end);
}

/// Sets the ledger that the task names. The ledger's own policy becomes the task's; any other would be
/// refused there.
Status enter_market(const SubmitOptions& options, Parsed& out) {
  DGX_TRY(const LedgerName market, read_ledger_name(*options.ledger));
  out.ledger = market.id;
  if (!market.policy) return {};
  if (options.policy && out.policy != *market.policy)
    return usage_error("--policy: is not the policy of --ledger " + *options.ledger, "leave out --policy");
  out.policy = *market.policy;
  return {};
}

Result<Parsed> parse(const SubmitOptions& options) {
  DGX_CHECK(refuse_later(options));
  Parsed out{options.model, std::nullopt, {}, {}, {}, {}, {}, manifest::standard_policy(), std::nullopt};
  if (program::is_model_spec(options.model)) {
    DGX_TRY(out.built_in, program::parse_model_spec(options.model));
  } else if (!exists(program::model_file(options.model).path)) {
    return Error{ErrorCode::kMissing, options.model + ": is neither a built-in model nor a file",
                 program::hint_for_model(options.model)};
  } else {
    DGX_CHECK(check_model_file(options.model));
  }
  if (options.evaluation_model) DGX_CHECK(check_model_file(*options.evaluation_model));
  DGX_TRY(const std::string loss, with_weights_of_file(options.loss));
  DGX_TRY(out.loss, program::parse_loss_spec(loss));
  DGX_TRY(out.optimizer, program::parse_optimizer_spec(options.optimizer));
  DGX_TRY(out.schedule, program::parse_schedule_text(options.schedule));
  DGX_TRY(out.update, parse_update(options));
  if (options.cut) {
    DGX_TRY(out.cut, parse_cut(options, out.built_in));
  }
  if (options.clip_norm && !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm))) {
    return usage_error("--clip-norm must be above 0");
  }
  if (options.policy) {
    DGX_TRY(const std::string text, read_file(*options.policy, manifest::kMaxEnvelopeBytes));
    auto policy = manifest::parse_policy_file(text);
    if (!policy) return within(*options.policy, std::move(policy).error());
    out.policy = *policy;
  }
  if (options.ledger) DGX_CHECK(enter_market(options, out));
  return out;
}

/// Refuses weights that are not finite: a file's own may be anything, and nothing non-finite is ever
/// committed.
Status check_finite(const State& state) {
  for (const Entry& entry : state) {
    if (entry.tensor.dtype() != DType::kF32) continue;
    const auto numbers = entry.tensor.as<float>();
    const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
    if (bad == numbers.end()) continue;
    return usage_error("initial state: entry " + entry.name + " is not finite at element " +
                       std::to_string(bad - numbers.begin()));
  }
  return {};
}

/// The number of steps that the options ask for: given, or as many as the epochs have batches.
Result<std::int64_t> steps_of(const SubmitOptions& options, std::uint64_t seed, std::int64_t samples) {
  if (options.batch > samples) {
    return usage_error("a batch of " + std::to_string(options.batch) + " is larger than the data, " +
                       std::to_string(samples) + " samples");
  }
  DGX_TRY(const auto order, kernels::DataOrder::create(seed, samples, options.batch));
  if (!options.epochs) return whole_updates(options, options.steps.value_or(0));
  DGX_TRY(const std::int64_t steps, order.steps_in(*options.epochs));
  return whole_updates(options, steps);
}

/// The number of checkpoints that cost a hundredth of the training.
std::int64_t affordable_checkpoints(const program::Cost& cost, std::int64_t steps) {
  const __int128 training =
      std::max<__int128>(static_cast<__int128>(steps) * cost.total_operations, kLeastTraining);
  const __int128 checkpoint =
      static_cast<__int128>(cost.state_bytes - cost.constant_bytes) * kOperationsPerStoredByte +
      kOperationsPerCheckpoint;
  return static_cast<std::int64_t>(
      std::min<__int128>(training / (checkpoint * kTrainingPerCheckpoints), program::kMostTaskSteps));
}

/// Steps of a segment (dgx-submit(1), --checkpoint-every): the most with which there are kSegments, or more
/// if as many checkpoints cost too much. A market's policy may demand fewer; the longest segment
/// can have one step more than the others.
std::int64_t default_interval(const program::Cost& cost, std::int64_t steps, const Parsed& parsed) {
  const std::int64_t enough = (steps - 2) / (kSegments - 1);
  const std::int64_t cheap_segments = std::max<std::int64_t>(1, affordable_checkpoints(cost, steps) - 1);
  const std::int64_t cheap = std::max({std::int64_t{2}, enough, ceil_div(steps, cheap_segments)});
  const std::int64_t allowed =
      parsed.policy.segment_operations / std::max<std::int64_t>(cost.total_operations, 1);
  const auto segments = protocol::Segments::of(steps, cheap);
  if (!parsed.ledger || !segments.ok() || segments->longest() <= allowed) return cheap;
  return std::max(allowed - 1, std::int64_t{2});
}

/// Everything submit() writes: the task before it is signed, and the files that it binds by their digests.
struct Draft {
  SubmitResult result;
  std::string program;
  std::string evaluation;
  State initial;
  merkle::StateDigests digests;
};

/// kUsage if a target cannot be one: a label that is not ignored and none of the output's classes would
/// silently train on a fill, and for bce a number outside 0 to 1 has no probability.
Status check_labels(const bundle::Dataset& data, const lowering::CapturedGraph& graph,
                    const program::LossSpec& loss, std::int64_t batch) {
  if (!data.find("y")) return {};
  if (loss.kind == program::LossKind::kBinaryCrossEntropy) return check_probabilities(data);
  if (loss.kind != program::LossKind::kCrossEntropy) return {};
  if (!data.find("y")->range)
    return usage_error("cross-entropy needs integer labels, y is f32", "--loss mse takes numbers");
  const Shape& output = graph.tensors[static_cast<std::size_t>(graph.output)].shape;
  Shape targets = data.find("y")->numbers.shape();
  targets[0] = batch;
  const auto dimension = lowering::class_dimension(output, targets);
  if (!dimension) return {};  // lowering reports what does not fit
  const std::int64_t classes = output[*dimension];
  const auto range = label_range(data, loss);
  if (!range)
    return usage_error("every label is " + std::to_string(*loss.ignore) + ", which the loss ignores");
  if (range->low < 0 || range->high >= classes) {
    return usage_error("labels range from " + std::to_string(range->low) + " to " +
                       std::to_string(range->high) + ", the model has classes 0 to " +
                       std::to_string(classes - 1));
  }
  return {};
}

Status check_numbers(const SubmitOptions& options) {
  if (options.batch < 1) return usage_error("--batch must be at least 1");
  if (options.price < 0) return usage_error("--price must be at least 0");
  if (options.max_milliseconds.value_or(1) < 1 ||
      options.max_milliseconds.value_or(1) > manifest::kMaxMilliseconds) {
    return usage_error("--max-milliseconds must be 1 to " + std::to_string(manifest::kMaxMilliseconds));
  }
  return {};
}

/// Sets price, estimate and caps, which follow from the cost and the policy.
Status set_price(const SubmitOptions& options, SubmitResult& result) {
  manifest::Task& task = result.task;
  task.price = options.price;
  DGX_TRY(const auto segments, protocol::Segments::of(task.steps, task.checkpoint_every));
  result.segments = segments.count();
  task.caps = {task.steps, result.cost.state_bytes,
               options.max_milliseconds.value_or(task.policy.window_proof_ms), result.cost.constant_bytes};
  task.estimate.step_operations = result.cost.total_operations;
  DGX_TRY(task.estimate, protocol::estimate(protocol::estimate_input(task, task.steps), task.policy));
  return {};
}

/// The initial state that was captured with the model, with the weights of --init if they are given.
Result<State> weights_of(const SubmitOptions& options, lowering::CapturedGraph training,
                         const program::Program& step, int threads) {
  const ModelNames names = names_of(training);
  DGX_TRY(State out, lowering::initial_state(step, std::move(training)));
  if (options.init) DGX_CHECK(bring_weights(*options.init, names, out, threads));
  program::start_averages(out);
  return out;
}

/// The count of the model's parameters: the numbers in all entries under model/.
std::int64_t parameters_of(const State& initial) {
  std::int64_t count = 0;
  for (const Entry& entry : initial) {
    if (entry.name.starts_with("model/")) count += entry.tensor.count();
  }
  return count;
}

/// The schedule of a task of so many steps, which fits it.
Result<program::ScheduleSpec> schedule_of(const Parsed& parsed, std::int64_t steps) {
  DGX_TRY(const program::ScheduleSpec out,
          program::fix_schedule(parsed.schedule, parsed.optimizer.learning_rate,
                                steps / parsed.update.accumulate));
  auto parameters = program::schedule_parameters(parsed.optimizer, out, steps, parsed.update);
  if (!parameters.ok()) return within("schedule", std::move(parameters).error());
  return out;
}

/// Copies into the task what the options say, whatever the data.
void copy_terms(const SubmitOptions& options, const Parsed& parsed, manifest::Task& task) {
  task.model = parsed.built_in ? parsed.model : name_of_model_file(parsed.model);
  task.loss = parsed.loss;
  task.optimizer = parsed.optimizer;
  task.update = parsed.update;
  task.clip_norm = options.clip_norm;
  task.batch = options.batch;
  task.policy = parsed.policy;
  task.ledger = parsed.ledger;
}

/// kUsage if a task of so many steps, or a segment of it, is too short.
Status check_steps(const SubmitOptions& options, std::int64_t steps) {
  if (steps < 2) return usage_error("a task has at least 2 steps, this one has " + std::to_string(steps));
  if (options.checkpoint_every && *options.checkpoint_every < 2)
    return usage_error("--checkpoint-every must be at least 2");
  return {};
}

Result<Draft> draft(const SubmitOptions& options, const JobContext& context) {
  DGX_TRY(Parsed parsed, parse(options));
  DGX_CHECK(check_numbers(options));
  DGX_TRY(const bundle::Dataset data,
          bundle::read_dataset(options.data, bundle::Check::kDigests, {context.threads}));
  DGX_TRY(const Digest digest, bundle::dataset_digest(data));
  const std::int64_t samples = data.samples();
  const std::uint64_t seed = options.seed.value_or(0);
  DGX_TRY(const std::int64_t steps, steps_of(options, seed, samples));
  DGX_CHECK(check_steps(options, steps));
  DGX_TRY(const program::ScheduleSpec schedule, schedule_of(parsed, steps));
  DGX_TRY(const auto cut, fixed_cut(parsed.cut, data, options.batch, steps));
  const lowering::TrainingRecipe recipe{
      fields_of(data),   data.scale,    data.shift, options.batch, parsed.loss, parsed.optimizer,
      options.clip_norm, parsed.update, schedule,   cut,           samples};
  if (parsed.built_in) {
    DGX_TRY(parsed.built_in, fitted(*parsed.built_in, data, parsed.loss));
    parsed.model = program::print_model_spec(*parsed.built_in);
  }
  DGX_TRY(CapturedModel model, capture_model(options, parsed.model, recipe));
  const lowering::CapturedGraph& training = model.training;
  if (!training.warning.empty()) context.progress.warning(training.warning);
  DGX_CHECK(check_labels(data, training, parsed.loss, recipe.batch));
  DGX_TRY(const program::Program step, lowering::lower_training_step(training, recipe));
  DGX_TRY(const program::Program evaluation, lowering::lower_evaluation(model.evaluation, recipe));

  const program::Cost cost = program::cost_of(step);
  DGX_CHECK(check_state_fits(cost));

  Draft out;
  out.program = program::print_program(step);
  out.evaluation = program::print_program(evaluation);
  const bool from_seed = parsed.built_in && !options.init;
  DGX_TRY(out.initial, from_seed ? program::initial_state(step, seed, *program::model_kind(parsed.model))
                                 : weights_of(options, std::move(model.training), step, context.threads));
  DGX_CHECK(check_finite(out.initial));
  DGX_TRY(out.digests, bundle::digests_of(out.initial, context.threads));
  out.result.cost = cost;
  out.result.parameters = parameters_of(out.initial);
  count_updates(step, parsed.update, out.result);

  manifest::Task& task = out.result.task;
  task.program = {program::program_root(step), static_cast<std::int64_t>(step.values.size())};
  task.evaluation = {program::program_root(evaluation), static_cast<std::int64_t>(evaluation.values.size())};
  task.initial = {out.digests.state,
                  from_seed ? manifest::InitialSource::kSeed : manifest::InitialSource::kFile};
  task.dataset = {digest, samples, {}};
  for (const auto& [name, field] : recipe.fields)
    task.dataset.fields.emplace(name, manifest::DatasetField{field.dtype, field.sample_shape});
  copy_terms(options, parsed, task);
  task.cut = cut;
  task.schedule = schedule;
  task.steps = steps;
  task.seed = seed;
  task.checkpoint_every = options.checkpoint_every.value_or(default_interval(out.result.cost, steps, parsed));
  DGX_CHECK(set_price(options, out.result));
  if (auto admitted = protocol::check_admission(task, step); !admitted)
    return usage_error(admitted.error().message);
  return out;
}

/// kCannotCreate unless the files next to a task are those that it binds. A call that was cut off leaves no
/// task without them: the task is written last.
Status check_files_beside(const std::string& task, const Draft& made) {
  const auto check = [&](const char* extension, const auto& is_same) -> Status {
    const std::string file = beside(task, extension);
    if (!exists(file)) {
      return Error{ErrorCode::kCannotCreate, task + ": is there already, but not " + file,
                   "bring it back, or make all anew with --force"};
    }
    if (is_same(file)) return {};
    return Error{ErrorCode::kCannotCreate, task + ": is there already, but " + file + " is another",
                 "bring it back, or make all anew with --force"};
  };
  const auto has_text = [](const std::string& text) {
    return [&text](const std::string& file) {
      const auto found = read_file(file, text.size() + 1);
      return found.ok() && *found == text;
    };
  };
  DGX_CHECK(check(".program.jsonl", has_text(made.program)));
  DGX_CHECK(check(".eval.jsonl", has_text(made.evaluation)));
  if (made.result.task.initial.source != manifest::InitialSource::kFile) return {};
  return check(".init.h5", [&](const std::string& file) {
    const auto stated = bundle::stated_digest(file);
    return stated.ok() && *stated == made.digests.state;
  });
}

/// The task that an earlier call wrote, if it is the one that this call would make: the same numbers by the
/// same steps, which only the captured model tells. kCannotCreate if it is another, or if a file that belongs
/// to it is missing or another.
Result<SubmitResult> existing_task(const SubmitOptions& options, const JobContext& context) {
  const std::string& path = options.output;
  DGX_TRY(const auto found, manifest::read_statement<manifest::Task>(path));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(Draft made, draft(options, context));
  const bool is_own = found.key_id == crypto::key_id(key.public_key());
  const std::string other = is_own ? first_difference(found.body, made.result.task) : "--key";
  if (!other.empty())
    return Error{ErrorCode::kCannotCreate, path + ": is there already, with another " + other,
                 "choose another name, or use --force to replace it"};
  DGX_CHECK(check_files_beside(path, made));
  made.result.id = found.id;
  made.result.existed = true;
  return std::move(made.result);
}

/// Writes the initial state. With `skip_existing` that of a call that was cut off is taken over.
Status write_initial(const SubmitOptions& options, const Draft& made, AtomicFile file) {
  const auto stated =
      options.skip_existing ? bundle::stated_digest(file.target()) : Result<Digest>(internal_error(""));
  if (stated.ok() && *stated == made.digests.state) return {};
  return bundle::write_state(std::move(file), made.initial, made.digests);
}

}  // namespace

Result<SubmitResult> submit(const SubmitOptions& options, const JobContext& context) {
  if (options.output == "-")
    return usage_error("-o - is not possible: a task's other files are written next to it");
  if (options.skip_existing && exists(options.output)) return existing_task(options, context);
  // Without its task, what a call wrote that was cut off: taken over if it is the same.
  const bool takes_over = options.skip_existing && context.clobber == Clobber::kRefuse;
  const Clobber clobber = takes_over ? Clobber::kKeepSame : context.clobber;
  const auto claim = [&](const char* extension) {
    return Output::claim(beside(options.output, extension), clobber);
  };
  DGX_TRY(Output program, claim(".program.jsonl"));
  DGX_TRY(Output evaluation, claim(".eval.jsonl"));
  DGX_TRY(AtomicFile initial, AtomicFile::create(beside(options.output, ".init.h5"), clobber));
  DGX_TRY(Output task, Output::claim(options.output, context.clobber));
  DGX_TRY(const crypto::SecretKey key, read_key(options.key));
  DGX_TRY(Draft made, draft(options, context));
  DGX_TRY(const auto sealed, manifest::seal(made.result.task, key));
  made.result.id = sealed.id;
  DGX_CHECK(program.check());
  DGX_CHECK(evaluation.check());
  if (made.result.task.initial.source == manifest::InitialSource::kFile)
    DGX_CHECK(write_initial(options, made, std::move(initial)));
  DGX_CHECK(program.write(made.program));
  DGX_CHECK(evaluation.write(made.evaluation));
  DGX_CHECK(task.write(sealed.envelope + "\n"));
  return std::move(made.result);
}

Result<SubmitResult> estimate(const SubmitOptions& options, const JobContext& context) {
  DGX_TRY(Draft made, draft(options, context));
  return std::move(made.result);
}

Result<SubmitResult> estimate_task(const std::string& path, const JobContext& context) {
  DGX_TRY(const TaskFiles files, open_task(path, std::nullopt, context.trust));
  SubmitResult out{files.task.id, files.body(), program::cost_of(*files.program), files.segments.count(), 0};
  for (const kernels::ValueIndex v : program::state_inputs(*files.program)) {
    const auto& entry = files.program->values[v];
    DGX_TRY(const std::int64_t count, element_count(entry.shape));
    if (entry.source.name.starts_with("model/")) out.parameters += count;
  }
  count_updates(*files.program, out.task.update, out);
  return out;
}

}  // namespace dgx::jobs
