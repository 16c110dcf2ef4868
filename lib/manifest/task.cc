#include "dgx/manifest/task.h"

#include <fmt/format.h>

#include "dgx/manifest/fields.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/number_text.h"
#include "dgx/program/program.h"

namespace dgx::manifest {
namespace {

constexpr std::size_t kMaxModelBytes = 1024;

json::Object program_json(const ProgramReference& program) {
  return {{"lines", program.lines}, {"root", program.root.hex()}};
}
ProgramReference read_program(json::Fields& in) {
  ProgramReference out;
  out.lines = in.integer("lines", 1, static_cast<std::int64_t>(program::kMaxLines));
  out.root = read_digest(in, "root");
  return out;
}

json::Object initial_json(const InitialState& initial) {
  return {{"digest", initial.digest.hex()}, {"source", name_of(initial.source)}};
}
InitialState read_initial(json::Fields& in) {
  InitialState out;
  out.digest = read_digest(in, "digest");
  out.source = read_enum(in, "source", std::array{InitialSource::kSeed, InitialSource::kFile});
  return out;
}

json::Object field_json(const DatasetField& field) {
  json::Array shape;
  for (const std::int64_t size : field.shape) shape.emplace_back(size);
  return {{"dtype", name_of(field.dtype)}, {"shape", shape}};
}
DatasetField read_field(json::Fields& in) {
  DatasetField out;
  const auto dtype = dtype_from_name(in.string("dtype", 8));
  if (dtype.ok()) {
    out.dtype = *dtype;
  } else {
    in.fail("dtype", dtype.error().message);
  }
  for (const json::Value& item : in.array("shape", kMaxRank)) {
    const std::int64_t* size = item.as_int();
    if (size == nullptr || *size < 1)
      in.fail("shape", fmt::format("dimension {} is not a positive integer", out.shape.size()));
    out.shape.push_back(size == nullptr ? 1 : *size);
  }
  const auto count = element_count(out.shape);
  if (!count.ok()) in.fail("shape", count.error().message);
  return out;
}

/// True for the fields that have a key of their own in a statement; others are under "fields".
bool has_own_key(std::string_view field) { return field == "x" || field == "y"; }

json::Object dataset_json(const DatasetReference& dataset) {
  json::Object out{{"digest", dataset.digest.hex()}, {"samples", dataset.samples}};
  json::Object others;
  for (const auto& [name, field] : dataset.fields)
    (has_own_key(name) ? out : others).emplace(name, field_json(field));
  if (!others.empty()) out.emplace("fields", std::move(others));
  return out;
}
/// Reads the fields besides x and y into `out`.
void read_other_fields(json::Fields& in, DatasetReference& out) {
  const json::Object* const object = in.value("fields").as_object();
  if (object == nullptr || object->empty() || object->size() + out.fields.size() > merkle::kMaxFields)
    return in.fail("fields", fmt::format("is not an object of other fields, at most {} with x and y",
                                         merkle::kMaxFields));
  for (const auto& [name, value] : *object) {
    if (!merkle::is_field_name(name) || has_own_key(name))
      return in.fail("fields", fmt::format("\"{}\" is no name of another field", name));
    json::Fields inner(value, name);
    out.fields.emplace(name, read_field(inner));
    const Status status = inner.finish();
    if (!status.ok()) return in.fail("fields", status.error().message);
  }
}
DatasetReference read_dataset(json::Fields& in) {
  DatasetReference out;
  out.digest = read_digest(in, "digest");
  out.samples = in.integer("samples", 1, kMaxInteger);
  out.fields.emplace("x", read_object(in, "x", read_field));
  if (in.has("y")) out.fields.emplace("y", read_object(in, "y", read_field));
  if (in.has("fields")) read_other_fields(in, out);
  return out;
}

json::Object estimate_json(const Estimate& estimate) {
  return {{"escrow", estimate.escrow},     {"fee", estimate.fee},
          {"margin", estimate.margin},     {"prove", estimate.prove},
          {"reward", estimate.reward},     {"step_operations", estimate.step_operations},
          {"tax", estimate.tax},           {"train", estimate.train},
          {"treasury", estimate.treasury}, {"verify", estimate.verify}};
}
Estimate read_estimate(json::Fields& in) {
  Estimate out;
  out.escrow = in.integer("escrow", 0, kMaxInteger);
  out.fee = in.integer("fee", 0, kMaxInteger);
  out.margin = in.integer("margin", 0, kMaxInteger);
  out.prove = in.integer("prove", 0, kMaxInteger);
  out.reward = in.integer("reward", 0, kMaxInteger);
  out.step_operations = in.integer("step_operations", 0, kMaxInteger);
  out.tax = in.integer("tax", 0, kMaxInteger);
  out.train = in.integer("train", 0, kMaxInteger);
  out.treasury = in.integer("treasury", 0, kMaxInteger);
  out.verify = in.integer("verify", 0, kMaxInteger);
  // Five numbers of at most 2^53 cannot wrap.
  const std::int64_t sum = out.reward + out.fee + out.tax + out.treasury + out.margin;
  if (sum != out.escrow) in.fail("escrow", fmt::format("is {}, its parts sum to {}", out.escrow, sum));
  return out;
}

json::Object caps_json(const Caps& caps) {
  json::Object out{{"bytes", caps.bytes}, {"milliseconds", caps.milliseconds}, {"steps", caps.steps}};
  if (caps.constant_bytes > 0) out.emplace("constant_bytes", caps.constant_bytes);
  return out;
}
Caps read_caps(json::Fields& in) {
  Caps out;
  out.bytes = in.integer("bytes", 1, kMaxInteger);
  if (in.has("constant_bytes")) out.constant_bytes = in.integer("constant_bytes", 1, out.bytes);
  out.milliseconds = in.integer("milliseconds", 1, kMaxMilliseconds);
  out.steps = in.integer("steps", 1, program::kMostTaskSteps);
  return out;
}

void read_training(json::Fields& in, Task& out) {
  out.model = read_name(in, "model", kMaxModelBytes);
  const auto loss = program::loss_from_json(in.value("loss"), "loss");
  if (!loss.ok()) fail_nested(in, "loss", loss.error());
  if (loss.ok()) out.loss = *loss;
  const auto optimizer = program::optimizer_from_json(in.value("optimizer"), "optimizer");
  if (!optimizer.ok()) fail_nested(in, "optimizer", optimizer.error());
  if (optimizer.ok()) out.optimizer = *optimizer;
  const auto schedule = program::schedule_from_json(in.value("schedule"), "schedule");
  if (!schedule.ok()) fail_nested(in, "schedule", schedule.error());
  if (schedule.ok()) out.schedule = *schedule;
  if (in.has("clip_norm")) {
    out.clip_norm = read_double(in, "clip_norm");
    if (*out.clip_norm <= 0) in.fail("clip_norm", "must be above zero");
  }
  out.update = program::read_update(in);
  if (in.has("cut")) out.cut = read_object(in, "cut", program::read_cut);
  out.batch = in.integer("batch", 1, kMaxInteger);
  out.steps = in.integer("steps", 2, program::kMostTaskSteps);
  if (out.steps % out.update.accumulate != 0)
    in.fail("accumulate",
            fmt::format("is {}, of which {} steps are no multiple", out.update.accumulate, out.steps));
  if (out.batch % out.update.workers != 0)
    in.fail("workers",
            fmt::format("is {}, of which a batch of {} is no multiple", out.update.workers, out.batch));
  if (out.cut && out.cut->first >= out.steps)
    in.fail("cut", fmt::format("first is {}, of {} steps none would be left", out.cut->first, out.steps));
  out.seed = read_u64(in, "seed");
  out.checkpoint_every = in.integer("checkpoint_every", 2, program::kMostTaskSteps);
  out.numerics = read_name(in, "numerics", 32);
  if (out.numerics != "exact-1")
    in.fail("numerics", fmt::format("\"{}\" is not in this version, only exact-1", out.numerics));
}

}  // namespace

std::string_view name_of(InitialSource source) { return source == InitialSource::kSeed ? "seed" : "file"; }

json::Object Task::predicate() const {
  json::Object out{{"program", program_json(program)},
                   {"evaluation", program_json(evaluation)},
                   {"initial", initial_json(initial)},
                   {"dataset", dataset_json(dataset)},
                   {"model", model},
                   {"loss", program::to_json(loss)},
                   {"optimizer", program::to_json(optimizer)},
                   {"schedule", program::to_json(schedule)},
                   {"batch", batch},
                   {"steps", steps},
                   {"seed", fmt::format("{}", seed)},
                   {"checkpoint_every", checkpoint_every},
                   {"numerics", numerics},
                   {"policy", policy.to_json()},
                   {"price", price},
                   {"estimate", estimate_json(estimate)},
                   {"caps", caps_json(caps)}};
  if (clip_norm) out.emplace("clip_norm", program::hex_float(*clip_norm));
  program::add_json(out, update);
  if (cut) out.emplace("cut", program::to_json(*cut));
  if (ledger) out.emplace("ledger", ledger->hex());
  return out;
}

Task Task::read(json::Fields& in) {
  Task out;
  out.program = read_object(in, "program", read_program);
  out.evaluation = read_object(in, "evaluation", read_program);
  out.initial = read_object(in, "initial", read_initial);
  out.dataset = read_object(in, "dataset", read_dataset);
  read_training(in, out);
  out.policy = read_object(in, "policy", Policy::read);
  out.price = in.integer("price", 0, kMaxInteger);
  out.estimate = read_object(in, "estimate", read_estimate);
  out.caps = read_object(in, "caps", read_caps);
  out.ledger = read_optional_digest(in, "ledger");
  if (out.batch > out.dataset.samples) {
    in.fail("batch", fmt::format("is {}, the dataset has {} samples", out.batch, out.dataset.samples));
  }
  if (out.steps > out.caps.steps)
    in.fail("caps", fmt::format("steps: is {}, the task has {}", out.caps.steps, out.steps));
  return out;
}

std::vector<Subject> Task::subjects() const {
  return {{"program", program.root},
          {"evaluation", evaluation.root},
          {"initial", initial.digest},
          {"dataset", dataset.digest}};
}

}  // namespace dgx::manifest
