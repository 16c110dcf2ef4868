#include "submit/submit_update.h"

#include <fmt/format.h>

#include <utility>

#include "dgx/kernels/schedule.h"

namespace dgx::jobs {
namespace {

/// The group whose numbers of the schedule a line reads; 0 if it reads none of a group.
std::size_t group_of(const program::Program& program, const kernels::Primitive& line) {
  for (const kernels::Access& access : line.accesses) {
    const kernels::Primitive& source = program.values[access.value];
    const bool is_schedule =
        source.kind == kernels::Kind::kInput && source.source.kind == kernels::Source::Kind::kSchedule;
    if (!is_schedule || access.coordinates.size() != 1 || !access.coordinates[0].terms.empty()) continue;
    const auto at = static_cast<std::size_t>(access.coordinates[0].constant);
    const auto name =
        at < source.source.of.size() ? kernels::parse_schedule_name(source.source.of[at]) : std::nullopt;
    if (name && name->group != 0) return static_cast<std::size_t>(name->group);
  }
  return 0;
}

Status check_workers(const SubmitOptions& options) {
  if (!options.workers) return {};
  if (*options.workers < 2 || *options.workers > program::kMaxWorkers) {
    return usage_error(fmt::format("--workers: {} is not 2 to {}", *options.workers, program::kMaxWorkers),
                       "without it a gradient is one sum over the batch");
  }
  if (options.batch % *options.workers == 0) return {};
  return usage_error(
      fmt::format("--workers {}: does not divide the batch of {}", *options.workers, options.batch),
      "each worker has as many samples");
}

}  // namespace

Result<std::int64_t> whole_updates(const SubmitOptions& options, std::int64_t steps) {
  const std::int64_t each = options.accumulate.value_or(1), rest = steps % each;
  if (rest == 0 || steps < 1) return steps;
  const std::int64_t fewer = steps - rest;
  if (options.epochs && fewer > 0) return fewer;
  return usage_error(fmt::format("{} steps are no multiple of --accumulate {}", steps, each),
                     fewer == 0 ? fmt::format("an update takes {} steps", each)
                                : fmt::format("--steps {} or {}", fewer, fewer + each));
}

Result<program::UpdateSpec> parse_update(const SubmitOptions& options) {
  program::UpdateSpec out;
  for (const auto& [name, count] :
       {std::pair{"--group", options.groups.size()}, std::pair{"--freeze", options.frozen.size()}}) {
    if (count > program::kMaxGroups)
      return usage_error(fmt::format("{}: given {} times, at most {}", name, count, program::kMaxGroups));
  }
  for (const std::string& text : options.groups) {
    auto group = program::parse_group(text);
    if (!group) return within("--group", std::move(group).error());
    out.groups.push_back(*std::move(group));
  }
  for (const std::string& pattern : options.frozen) {
    if (Status good = program::check_pattern(pattern); !good)
      return within("--freeze", std::move(good).error());
  }
  out.frozen = options.frozen;
  if (options.accumulate && (*options.accumulate < 2 || *options.accumulate > program::kMaxAccumulate)) {
    return usage_error(
        fmt::format("--accumulate: {} is not 2 to {}", *options.accumulate, program::kMaxAccumulate),
        "without it every step updates the parameters");
  }
  out.accumulate = options.accumulate.value_or(1);
  DGX_CHECK(check_workers(options));
  out.workers = options.workers.value_or(1);
  if (options.ema && !program::is_ema(*options.ema)) {
    return usage_error(fmt::format("--ema: {} is not above 0 and below 1", *options.ema),
                       "it is what the average keeps in an update, such as 0.999");
  }
  out.ema = options.ema;
  return out;
}

void count_updates(const program::Program& program, const program::UpdateSpec& update, SubmitResult& out) {
  for (const program::ParameterGroup& group : update.groups) out.groups.push_back({group.match, 0, 0});
  for (const kernels::ValueIndex v : program::state_inputs(program)) {
    const kernels::Primitive& entry = program.values[v];
    const auto count = element_count(entry.shape);
    if (!entry.source.name.starts_with("model/") || !entry.next || !count) continue;
    if (*entry.next == v && !update.frozen.empty()) out.frozen = out.frozen.value_or(0) + *count;
    const std::size_t group = group_of(program, program.values[*entry.next]);
    if (group == 0 || group > out.groups.size()) continue;
    out.groups[group - 1].parameters += 1;
    out.groups[group - 1].numbers += *count;
  }
}

}  // namespace dgx::jobs
