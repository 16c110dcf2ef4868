#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dgx/core/json.h"
#include "dgx/placement/plan.h"
#include "dgx/program/stages.h"

namespace dgx::placement {
namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

Digest read_digest(json::Fields& in, const char* key) {
  const auto digest = digest_from_hex(in.string(key, 64));
  if (!digest.ok()) in.fail(key, "is no SHA-256 in hex");
  return digest.ok() ? *digest : Digest();
}

Plan::Predicted read_predicted(const json::Value& value, Status& status) {
  json::Fields in(value, "predicted");
  Plan::Predicted out;
  out.plan = in.integer("plan", 0, kMaxInteger);
  out.by_region = in.integer("by_region", 0, kMaxInteger);
  out.random = in.integer("random", 0, kMaxInteger);
  out.alone = in.integer("alone", 0, kMaxInteger);
  status = in.finish();
  return out;
}

Plan::Pipeline read_pipeline(const json::Value& value, std::int64_t slices, Status& status) {
  json::Fields in(value, "pipeline");
  Plan::Pipeline out;
  out.parts = in.integer("parts", 1, std::min(slices, program::kMaxPipelineParts));
  std::int64_t before = 0;
  for (const json::Value& each : in.array("cuts", program::kMaxStages - 1)) {
    const auto line = each.as_int();
    if (!line || *line <= before || *line >= static_cast<std::int64_t>(program::kMaxLines)) {
      in.fail("cuts", fmt::format("item {} is no line behind the one before", out.cuts.size()));
      break;
    }
    before = *line;
    out.cuts.push_back(static_cast<kernels::ValueIndex>(*line));
  }
  status = in.finish();
  return out;
}

/// Reads what is left out where it is false, and in pipelines.
bool read_experts(json::Fields& in, const Plan& plan) {
  const bool experts = in.boolean("experts");
  if (!experts) in.fail("experts", "is false, which is left out");
  if (plan.pipeline) in.fail("experts", "is there with a pipeline, whose stages have all of their weights");
  return experts;
}

/// kMalformed unless there are as many seats as stages for each pipeline, with the same slices, at least one
/// for each part.
Status check_pipelines(const Plan& plan) {
  const std::size_t stages = plan.pipeline->stages();
  if (plan.ranks.size() % stages != 0)
    return malformed(fmt::format("plan.ranks: are {}, for {} stages", plan.ranks.size(), stages));
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const std::int64_t slices = plan.ranks[r].slices, of_first = plan.ranks[r - r % stages].slices;
    if (slices != of_first)
      return malformed(
          fmt::format("plan.ranks[{}].slices: is {}, stage 0 of its pipeline has {}", r, slices, of_first));
    if (slices < plan.pipeline->parts)
      return malformed(fmt::format("plan.ranks[{}].slices: is {}, fewer than the {} parts", r, slices,
                                   plan.pipeline->parts));
  }
  return {};
}

/// kMalformed unless the seats, or of pipelines those of stage 0, have all slices.
Status check_seats(const Plan& plan) {
  if (plan.ranks.empty()) return malformed("plan.ranks: is empty");
  if (plan.pipeline) DGX_CHECK(check_pipelines(plan));
  const std::size_t step = plan.pipeline ? plan.pipeline->stages() : 1;
  std::int64_t all = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); r += step) {
    all += plan.ranks[r].slices;
    if (all > plan.slices) break;  // and no sum overflows
  }
  if (all == plan.slices) return {};
  return malformed(fmt::format("plan.ranks: do not have the {} slices of a batch", plan.slices));
}

}  // namespace

void append_parts(std::int64_t begin, std::int64_t slices, std::int64_t parts,
                  std::vector<std::int64_t>& bounds) {
  // Without the product of slices and parts, which may be too large.
  for (std::int64_t q = 1; q <= parts; ++q)
    bounds.push_back(begin + slices / parts * q + slices % parts * q / parts);
}

std::vector<std::int64_t> Plan::bounds() const {
  std::vector<std::int64_t> out = {0};
  for (std::size_t r = 0; r < ranks.size(); r += pipeline ? pipeline->stages() : 1)
    append_parts(out.back(), ranks[r].slices, pipeline ? pipeline->parts : 1, out);
  return out;
}

Result<Plan> parse_plan(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse(text, {kMaxPlanBytes, 8}));
  json::Fields in(value, "plan");
  Plan out;
  out.task = read_digest(in, "task");
  out.program = read_digest(in, "program");
  out.slices = in.integer("slices", 1, kMaxInteger);
  const json::Array& ranks = in.array("ranks", kMaxRanks);
  Status predicted, pipeline;
  out.predicted = read_predicted(in.value("predicted"), predicted);
  if (in.has("pipeline")) out.pipeline = read_pipeline(in.value("pipeline"), out.slices, pipeline);
  if (in.has("experts")) out.experts = read_experts(in, out);
  DGX_CHECK(in.finish());
  DGX_CHECK(std::move(predicted));
  DGX_CHECK(std::move(pipeline));
  std::set<std::string> names;
  for (const json::Value& each : ranks) {
    json::Fields seat(each, fmt::format("ranks[{}]", out.ranks.size()));
    out.ranks.push_back({seat.string("machine", kMaxNameBytes), seat.integer("slices", 1, out.slices)});
    if (!is_name(out.ranks.back().machine)) seat.fail("machine", "is no name of a machine");
    if (!names.insert(out.ranks.back().machine).second) seat.fail("machine", "has a rank already");
    DGX_CHECK(seat.finish());
  }
  DGX_CHECK(check_seats(out));
  return out;
}

std::string print_plan(const Plan& plan) {
  json::Array ranks;
  for (const Seat& seat : plan.ranks)
    ranks.emplace_back(json::Object{{"machine", seat.machine}, {"slices", seat.slices}});
  const Plan::Predicted& told = plan.predicted;
  json::Object out{{"predicted", json::Object{{"alone", told.alone},
                                              {"by_region", told.by_region},
                                              {"plan", told.plan},
                                              {"random", told.random}}},
                   {"program", plan.program.hex()},
                   {"ranks", std::move(ranks)},
                   {"slices", plan.slices},
                   {"task", plan.task.hex()}};
  if (plan.experts) out.emplace("experts", true);
  if (plan.pipeline) {
    json::Array cuts;
    for (const kernels::ValueIndex v : plan.pipeline->cuts) cuts.emplace_back(std::int64_t{to_number(v)});
    out.emplace("pipeline", json::Object{{"cuts", std::move(cuts)}, {"parts", plan.pipeline->parts}});
  }
  return json::Value(std::move(out)).dump() + "\n";
}

}  // namespace dgx::placement
