#include <fmt/format.h>

#include "dgx/bundle/dataset.h"
#include "dgx/bundle/run.h"
#include "dgx/bundle/sample.h"
#include "dgx/bundle/state.h"
#include "dgx/bundle/trace.h"
#include "dgx/merkle/digests.h"
#include "dgx/program/number_text.h"
#include "inspect/describe.h"
#include "train/log_rows.h"

namespace dgx::jobs {

namespace {

json::Object field_type(const bundle::FieldInfo& field) {
  json::Object out{{"dtype", name_of(field.dtype)}, {"shape", to_string(field.shape)}};
  if (field.range)
    out.emplace("range", json::Array{json::integer_in_output(field.range->low),
                                     json::integer_in_output(field.range->high)});
  return out;
}

/// The fields besides x and y, in a table: their names are the user's.
void add_other_fields(const bundle::DatasetInfo& info, Description& out) {
  json::Array rows;
  for (const auto& [name, field] : info.fields) {
    if (name == "x" || name == "y") continue;
    json::Object row = field_type(field);
    row.emplace("name", name);
    row.try_emplace("range", json::Array{});  // of floats there is none
    rows.emplace_back(std::move(row));
  }
  if (!rows.empty()) out.fields.push_back({"fields", std::move(rows), {"name", "dtype", "shape", "range"}});
}

/// A number whose bits count.
json::Output exactly(float number) { return json::Output::of_hex(program::hex_float(number)); }

Result<Description> describe_dataset(const std::string& path, Recompute recompute, int threads) {
  DGX_TRY(const bundle::DatasetInfo info, bundle::read_dataset_info(path));
  Description out{"dataset",
                  {{"samples", json::integer_in_output(info.samples)},
                   {"digest", info.digest.hex()},
                   {"x", field_type(info.x())}},
                  {},
                  {}};
  if (const bundle::FieldInfo* const y = info.find("y")) out.fields.push_back({"y", field_type(*y)});
  out.fields.push_back({"scale", exactly(info.scale)});
  out.fields.push_back({"shift", exactly(info.shift)});
  add_other_fields(info, out);
  if (!info.classes.empty())
    out.fields.push_back({"classes", json::Array(info.classes.begin(), info.classes.end())});
  if (!info.channels.empty()) {
    json::Output::Array rows;
    for (const bundle::Affine& channel : info.channels) {
      rows.emplace_back(
          json::Output::Object{{"scale", exactly(channel.scale)}, {"shift", exactly(channel.shift)}});
    }
    out.fields.push_back({"channels", std::move(rows), {"scale", "shift"}});
  }
  if (recompute == Recompute::kYes) {
    DGX_TRY([[maybe_unused]] const auto data, bundle::read_dataset(path, bundle::Check::kDigests, {threads}));
    out.recomputed = {"dataset"};
  }
  return out;
}

Description::Field entries_table(const bundle::StoredState& stored) {
  json::Array rows;
  for (std::size_t i = 0; i < stored.state.size(); ++i) {
    const Entry& entry = stored.state[i];
    rows.emplace_back(json::Object{{"name", entry.name},
                                   {"dtype", name_of(entry.tensor.dtype())},
                                   {"shape", to_string(entry.tensor.shape())},
                                   {"digest", stored.digests.tensors[i].hex()}});
  }
  return {"entries", std::move(rows), {"name", "dtype", "shape", "digest"}};
}

bundle::Check check_of(Recompute recompute) {
  return recompute == Recompute::kYes ? bundle::Check::kDigests : bundle::Check::kNothing;
}

Result<Description> describe_state(const std::string& path, Recompute recompute, int threads) {
  DGX_TRY(const auto stored, bundle::read_state(path, check_of(recompute), {threads}));
  Description out{"state", {}, {}, {}};
  if (find_entry(stored.state, "step") != nullptr) {  // the constant entries of a run have none
    DGX_TRY(const std::int64_t step, step_of(stored.state));
    out.fields.push_back({"step", json::integer_in_output(step)});
  }
  const Entry* loss = find_entry(stored.state, "loss");
  if (loss != nullptr && loss->tensor.dtype() == DType::kF32 && loss->tensor.count() == 1) {
    out.fields.push_back({"loss", loss->tensor.as<float>()[0]});
  }
  out.fields.push_back({"digest", stored.digests.state.hex()});
  std::size_t bytes = 0;
  for (const Entry& entry : stored.state) bytes += entry.tensor.bytes().size();
  out.fields.push_back({"bytes", json::integer_in_output(static_cast<std::int64_t>(bytes))});
  out.fields.push_back(entries_table(stored));
  if (recompute == Recompute::kYes)
    out.recomputed = {fmt::format("{} entries", stored.state.size()), "state"};
  return out;
}

Result<Description> describe_sample(const std::string& path, Recompute recompute, int threads) {
  DGX_TRY(const bundle::SampleReader sample, bundle::SampleReader::open(path));
  Description out{"sample",
                  {{"task", sample.header().task.hex()},
                   {"proof", sample.header().proof.hex()},
                   {"checkpoints", json::integer_in_output(sample.header().checkpoints)}},
                  {},
                  {}};
  if (!sample.constants().empty())
    out.fields.push_back({"constant", json::Array(sample.constants().begin(), sample.constants().end())});
  json::Array rows;
  for (std::size_t i = 0; i < sample.segments().size(); ++i) {
    const bundle::SampleSegment& segment = sample.segments()[i];
    DGX_TRY(const Digest root,
            merkle::root_from_path(merkle::committed_state_leaf(segment.start),
                                   static_cast<std::uint64_t>(segment.segment),
                                   static_cast<std::uint64_t>(sample.header().checkpoints), segment.path));
    rows.emplace_back(json::Object{{"segment", json::integer_in_output(segment.segment)},
                                   {"start", segment.start.hex()},
                                   {"root", root.hex()}});
    if (recompute == Recompute::kNo) continue;
    DGX_TRY([[maybe_unused]] const auto stored, sample.start(i, bundle::Check::kDigests, {threads}));
    if (root.hex() != *rows.front().as_object()->at("root").as_string()) {
      return malformed(
          fmt::format("{}: segment {} does not lead to the root of the others", path, segment.segment));
    }
  }
  if (recompute == Recompute::kYes)
    out.recomputed = {fmt::format("{} states", rows.size()), "paths to one root"};
  out.fields.push_back({"segments", std::move(rows), {"segment", "start", "root"}});
  return out;
}

Description::Field digest_table(const std::string& name, const std::string& index, std::int64_t first,
                                const std::vector<Digest>& digests) {
  json::Array rows;
  for (const Digest& digest : digests)
    rows.emplace_back(json::Object{{index, json::integer_in_output(first++)}, {"digest", digest.hex()}});
  return {name, std::move(rows), {index, "digest"}};
}

Result<Description> describe_trace(const std::string& path, Recompute recompute, int threads) {
  DGX_TRY(const bundle::Trace trace, bundle::read_trace(path, check_of(recompute), {threads}));
  Description out{"trace",
                  {{"task", trace.task.hex()},
                   {"segment", json::integer_in_output(trace.segment)},
                   {"first_step", json::integer_in_output(trace.first_step)},
                   {"steps", json::integer_in_output(static_cast<std::int64_t>(trace.states.size()) - 1)}},
                  {},
                  {}};
  out.fields.push_back(digest_table("states", "step", trace.first_step, trace.states));
  if (trace.values) {
    out.fields.push_back({"step", json::integer_in_output(trace.values->step)});
    out.fields.push_back(digest_table("values", "value", 0, trace.values->digests));
  }
  if (trace.numbers) {
    out.fields.push_back({"numbers", json::Object{{"value", json::integer_in_output(trace.numbers->value)},
                                                  {"dtype", name_of(trace.numbers->tensor.dtype())},
                                                  {"shape", to_string(trace.numbers->tensor.shape())}}});
    if (recompute == Recompute::kYes) out.recomputed = {fmt::format("value {}", trace.numbers->value)};
  }
  return out;
}

/// Adds the best row of RUN/validation.csv. The table is for people, and nothing depends on it: if it cannot
/// be read as one, the field says so in its place.
Status add_validation(const std::string& folder, Description& out) {
  BestRow best;
  const auto rows = read_log(folder, kValidationFormat, [&best](LogRow row) { return best.take(row), true; });
  if (!rows.ok() && rows.error().code != ErrorCode::kMalformed) return rows.error();
  if (!rows.ok()) {
    out.fields.push_back({"validation", rows.error().message});
  } else if (best.step > 0) {
    out.fields.push_back({"best_step", json::integer_in_output(best.step)});
    out.fields.push_back({"best_validation_loss", best.loss});
  }
  return {};
}

}  // namespace

Result<Description> describe_bundle(const std::string& path, Recompute recompute, int threads) {
  DGX_TRY(const bundle::Kind kind, bundle::kind_of(path));
  switch (kind) {
    case bundle::Kind::kDataset: return describe_dataset(path, recompute, threads);
    case bundle::Kind::kState: return describe_state(path, recompute, threads);
    case bundle::Kind::kSample: return describe_sample(path, recompute, threads);
    case bundle::Kind::kTrace: return describe_trace(path, recompute, threads);
    case bundle::Kind::kRun: break;
  }
  return usage_error(path + ": the index of a run", "name the run's folder");
}

Result<Description> describe_run(const std::string& folder, Recompute recompute, int threads) {
  DGX_TRY(const bundle::RunReader run, bundle::RunReader::open(folder));
  const bundle::RunIndex& index = run.index();
  Description out{"run",
                  {{"task", index.header.task.hex()},
                   {"program", index.header.program.hex()},
                   {"checkpoint_every", json::integer_in_output(index.header.interval)},
                   {"segments", json::integer_in_output(index.segments())},
                   {"steps", json::integer_in_output(index.checkpoints.back().step)},
                   {"state", index.checkpoints.back().digest.hex()}},
                  {},
                  {}};
  if (!index.losses.empty()) out.fields.push_back({"loss", index.losses.back()});
  DGX_CHECK(add_validation(folder, out));
  if (!index.header.drill.empty()) out.fields.push_back({"drill", index.header.drill});
  json::Output::Array rows;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i <= index.segments(); ++i) {
    const bundle::Checkpoint& checkpoint = index.checkpoints[static_cast<std::size_t>(i)];
    const auto losses = i > 0 ? index.losses_of(i - 1) : std::span<const float>();
    rows.emplace_back(
        json::Output::Object{{"checkpoint", i},
                             {"step", checkpoint.step},
                             {"digest", checkpoint.digest.hex()},
                             {"kept", run.has(i)},
                             {"loss", losses.empty() ? json::Output() : json::Output(losses.back())}});
    if (!run.has(i)) continue;
    ++kept;
    if (recompute == Recompute::kYes) {
      DGX_TRY([[maybe_unused]] const auto state, run.state(i, bundle::Check::kDigests, {threads}));
    }
  }
  out.fields.push_back({"checkpoints", std::move(rows), {"checkpoint", "step", "loss", "kept", "digest"}});
  if (recompute == Recompute::kYes) {
    out.recomputed = {fmt::format("{} kept checkpoints", kept)};
    const std::int64_t dropped = index.segments() + 1 - kept;
    if (dropped > 0) out.absent = {fmt::format("{} checkpoints that were not kept", dropped)};
  }
  return out;
}

}  // namespace dgx::jobs
