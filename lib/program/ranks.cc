#include "dgx/program/ranks.h"

#include <algorithm>
#include <map>
#include <set>

namespace dgx::program {

using kernels::ByValue;
using kernels::Kind;
using kernels::ValueIndex;

ByValue<std::size_t> waits_of(const Program& program, const Classes& classes) {
  ByValue<std::size_t> out(program.values.size(), 0);
  for (const ValueIndex v : program.values.indices()) {
    const auto& accesses = program.values[v].accesses;
    if (!classes.body[v]) continue;
    for (std::size_t n = 0; n < accesses.size(); ++n) {
      const ValueIndex read = accesses[n].value;
      if (program.values[read].kind == Kind::kInput) continue;
      const bool comes_back =
          classes.home_of(read) != classes.home_of(v) && classes.home_of(read) != Classes::kEveryRank;
      const bool waits = comes_back || needs_whole(program, classes, v, n);
      out[v] = std::max(out[v], out[read] + (waits ? 1 : 0));
    }
  }
  return out;
}

std::vector<ValueIndex> folds_behind_gathers(const Program& program, const Classes& classes,
                                             const ByValue<std::size_t>& waits) {
  const auto terms = [&](ValueIndex v) {
    const kernels::Primitive& line = program.values[v];
    return static_cast<double>(element_count(line.shape).value()) *
           static_cast<double>(element_count(line.fold).value());
  };
  const std::size_t last = waits.empty() ? 0 : *std::ranges::max_element(waits);
  std::vector<double> left(last + 1, 0);  // by phase: terms that are to stand behind its gathers
  for (const ValueIndex v : program.values.indices())
    if (classes.of[v] == SampleClass::kCarried) left[waits[v]] = std::max(left[waits[v]], terms(v));
  left[last] = 0;
  std::vector<ValueIndex> out;
  for (std::size_t n = program.values.size(); n-- > 0;) {
    const auto v = static_cast<ValueIndex>(n);
    if (classes.of[v] != SampleClass::kCarried || left[waits[v]] <= 0) continue;
    left[waits[v]] -= terms(v);
    out.push_back(v);
  }
  std::ranges::reverse(out);
  return out;
}

std::vector<ValueIndex> gathered_in_body(const Classes& classes) {
  std::set<ValueIndex> out;
  for (const Gather& gather : classes.gathers) {
    if (classes.body[gather.reader] && classes.home_of(gather.reader) == Classes::kEveryRank)
      out.insert(gather.value);
  }
  return {out.begin(), out.end()};
}

std::vector<HomeMove> moves_of(const Program& program, const Classes& classes) {
  const std::vector<ValueIndex> gathered = gathered_in_body(classes);
  std::map<ValueIndex, std::set<int>> homes;  // by value
  for (const ValueIndex v : program.values.indices()) {
    if (!classes.body[v]) continue;
    for (const kernels::Access& access : program.values[v].accesses) {
      const ValueIndex read = access.value;
      const int from = classes.home_of(read), to = classes.home_of(v);
      if (program.values[read].kind == Kind::kInput || from == to) continue;
      if (std::ranges::binary_search(gathered, read)) continue;
      if (from == Classes::kEveryRank && classes.of[read] != SampleClass::kSharded) continue;
      std::set<int>& of_value = homes[read];
      if (from == Classes::kEveryRank) of_value.insert(to);
    }
  }
  std::vector<HomeMove> out;
  for (const auto& [v, of_value] : homes) out.push_back({v, {of_value.begin(), of_value.end()}});
  return out;
}

}  // namespace dgx::program
