#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"
#include "dgx/jobs/key.h"
#include "dgx/manifest/task.h"
#include "dgx/program/cost.h"

namespace dgx::jobs {

/// dgx-submit(1).
struct SubmitOptions {
  std::string data;
  std::string model;  ///< a spec, or the path of an archive of torch.export or a TorchScript file
  /// An archive of the same model, exported for evaluation. Unless given, `model` serves for both.
  std::optional<std::string> evaluation_model;
  std::string loss;  ///< a spec; its weights may be a file of numbers
  std::string optimizer;
  std::int64_t batch = 0;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::optional<std::uint64_t> seed;
  std::string schedule = "constant";
  std::optional<double> clip_norm;
  std::vector<std::string> groups;         ///< `PATTERN:lr=0.1x,weight-decay=0`, program::parse_group()
  std::vector<std::string> frozen;         ///< patterns
  std::optional<double> ema;               ///< what the parameters' moving average keeps in an update
  std::optional<std::int64_t> accumulate;  ///< steps of an update, 2 to program::kMaxAccumulate
  std::optional<std::int64_t> workers;     ///< 2 to program::kMaxWorkers; must divide the batch
  std::optional<std::string> cut;          ///< a spec, program::parse_cut_spec()
  std::optional<std::int64_t> checkpoint_every;
  /// The types in which forward() of a model file takes the data: that of x, or FIELD=TYPE,…; types are auto,
  /// bool, f32, i64 and u8.
  std::string input = "auto";
  std::optional<std::string> inputs;        ///< INPUT=FIELD,…: what the arguments of forward() take
  std::optional<std::string> model_output;  ///< which of several outputs of forward() counts
  std::optional<std::string> init;          ///< a run, a checkpoint bundle or a .safetensors file
  std::optional<std::string> parent;
  std::string numerics = "exact";
  std::optional<std::string> policy;
  /// The task's market, read by read_ledger_name(). If no policy is given, it is the market's.
  std::optional<std::string> ledger;
  std::int64_t price = 1000;
  std::optional<std::int64_t> max_milliseconds;
  KeyFile key;
  std::string output;  ///< TASK.json
  bool skip_existing = false;
};

/// A group of the task and how much of the model is in it.
struct GroupSize {
  std::string match;
  std::int64_t parameters = 0;
  std::int64_t numbers = 0;
};

struct SubmitResult {
  Digest id;  ///< the task's; zero from estimate()
  manifest::Task task;
  program::Cost cost;  ///< cost of one step
  std::int64_t segments = 0;
  std::int64_t parameters = 0;  ///< count of numbers under model/
  std::vector<GroupSize> groups = {};
  std::optional<std::int64_t> frozen =
      {};                ///< numbers under model/ that no step changes, if the task freezes some
  bool existed = false;  ///< the task was there already, and `skip_existing`
};

/// Captures one step of the model on this dataset, lowers it, and writes TASK.program.jsonl, TASK.eval.jsonl,
/// TASK.init.h5 (for weights that do not come from the seed: those of a model file or `init`) and, last, the
/// signed TASK.json.
///
/// kUsage: an invalid spec, an op without an exact lowering (by name and place), fields that do not fit the
/// loss, a batch larger than the data, labels outside the model's classes. kCannotCreate: an output exists.
///
/// With `skip_existing`, a task that is there, complete and the one that this call would write, is the
/// result; kCannotCreate if it is another. The model is captured to tell. Of a call that was cut off, the
/// files next to the task are taken over.
[[nodiscard]] Result<SubmitResult> submit(const SubmitOptions& options, const JobContext& context);

/// The cost that the task of these options would have. Needs no key and writes nothing; errors of submit().
[[nodiscard]] Result<SubmitResult> estimate(const SubmitOptions& options, const JobContext& context);
/// The estimate of an existing task.
[[nodiscard]] Result<SubmitResult> estimate_task(const std::string& path, const JobContext& context);

/// The arguments of a trainer of Hugging Face's transformers that come nearest to a task, "--max_steps 100
/// --learning_rate 0.001 …", and what they cannot say (dgx-submit(1), "Coming from a trainer").
[[nodiscard]] std::string trainer_words(const manifest::Task& task);

}  // namespace dgx::jobs
