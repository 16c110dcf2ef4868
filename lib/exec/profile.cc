#include "dgx/exec/profile.h"

#include <algorithm>
#include <set>

#include "plan.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;

namespace {

/// The values that the task makes, in registers or in memory.
std::vector<ValueIndex> values_of(const Task& task) {
  if (const auto* rows = std::get_if<RowsTask>(&task.work)) return rows->members;
  const MapTask* map = map_of(task);
  if (map == nullptr) return task.writes;
  std::vector<ValueIndex> values = map->members;
  if (const auto* both = std::get_if<ProductMapTask>(&task.work))
    values.insert(values.begin(), both->product.out);
  return values;
}

double arithmetic_of(const kernels::CompiledPrimitive& compiled, const kernels::Primitive& primitive) {
  const auto positions = static_cast<double>(compiled.count) *
                         static_cast<double>(std::max<std::int64_t>(compiled.fold_count, 1));
  if (primitive.kind == Kind::kDot) return 2 * positions;
  const auto steps = static_cast<double>(primitive.steps.size() + primitive.when.size());
  return positions * (steps + (primitive.kind == Kind::kMap || primitive.kind == Kind::kChain ? 0 : 1));
}

double bytes_of_task(const Task& task, const program::Program& program) {
  const std::set<ValueIndex> reads(task.reads.begin(), task.reads.end());
  double bytes = 0;
  for (const ValueIndex v : reads)
    bytes += static_cast<double>(bytes_of(program.values[static_cast<std::size_t>(v)]));
  for (const ValueIndex v : task.writes)
    bytes += static_cast<double>(bytes_of(program.values[static_cast<std::size_t>(v)]));
  return bytes;
}

/// The part of form_of() in parentheses: "2048×384×1536", "2 operations".
std::string bare_form(const Task& task) {
  const std::string form = form_of(task);
  const std::size_t begin = form.find('(');
  return begin == std::string::npos ? "" : form.substr(begin + 1, form.size() - begin - 2);
}

}  // namespace

std::vector<OperationProfile> operation_profiles(const Plan& plan, const program::Program& program,
                                                 std::span<const double> seconds) {
  std::vector<OperationProfile> out;
  for (std::size_t t = 0; t < seconds.size(); ++t) {
    const Task& task = plan.tasks[t];
    OperationProfile one;
    one.kind = kind_of(task);
    one.form = bare_form(task);
    one.values = values_of(task);
    one.seconds = seconds[t];
    one.bytes = bytes_of_task(task, program);
    for (const ValueIndex v : one.values) {
      const auto value = static_cast<std::size_t>(v);
      one.arithmetic += arithmetic_of(plan.compiled[value], program.values[value]);
    }
    if (!one.values.empty())
      one.provenance = program.values[static_cast<std::size_t>(one.values.front())].provenance;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace dgx::exec
