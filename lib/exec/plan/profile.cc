#include "dgx/exec/profile.h"

#include <algorithm>
#include <set>

#include "plan/plan.h"

namespace dgx::exec {

using kernels::Kind;
using kernels::ValueIndex;

namespace {

double arithmetic_of(const kernels::CompiledPrimitive& compiled, const kernels::Primitive& primitive) {
  const auto positions = static_cast<double>(compiled.count) *
                         static_cast<double>(std::max<std::int64_t>(compiled.fold_count, 1));
  if (primitive.kind == Kind::kDot) return 2 * positions;
  const auto steps = static_cast<double>(primitive.steps.size() + primitive.when.size());
  return positions * (steps + (primitive.kind == Kind::kMap || primitive.kind == Kind::kChain ? 0 : 1));
}

double bytes_of_operation(const Operation& operation, const program::Program& program) {
  const std::set<ValueIndex> reads(operation.reads.begin(), operation.reads.end());
  double bytes = 0;
  for (const ValueIndex v : reads) bytes += static_cast<double>(bytes_of(program.values[v]));
  for (const ValueIndex v : operation.writes) bytes += static_cast<double>(bytes_of(program.values[v]));
  return bytes;
}

/// The sizes in a form's parentheses: "2048×384×1536"; with commas between, if there are several:
/// "2 operations, 2048×384×1536".
std::string bare(std::string_view form) {
  std::string out;
  for (std::size_t begin = form.find('('); begin != std::string_view::npos; begin = form.find('(')) {
    const std::size_t end = form.find(')', begin);
    if (!out.empty()) out += ", ";
    out += form.substr(begin + 1, end - begin - 1);
    form.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

std::vector<OperationProfile> operation_profiles(const Plan& plan, std::span<const double> seconds) {
  const program::Program& program = *plan.program;
  std::vector<OperationProfile> out;
  for (std::size_t o = 0; o < seconds.size(); ++o) {
    const Operation& operation = plan.operations[o];
    OperationProfile one;
    const Words words = words_of(operation);
    one.kind = words.kind;
    one.form = bare(words.form);
    one.values = values_of(operation);
    one.seconds = seconds[o];
    one.bytes = bytes_of_operation(operation, program);
    for (const ValueIndex v : one.values)
      one.arithmetic += arithmetic_of(plan.compiled[v], program.values[v]);
    if (!one.values.empty()) one.provenance = program.values[one.values.front()].provenance;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace dgx::exec
