#include "dgx/placement/step_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "dgx/kernels/dot_state.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/program/experts.h"
#include "dgx/program/ranks.h"

namespace dgx::placement {
namespace {

using kernels::ByValue;
using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;
using program::Classes;
using program::Program;
using program::SampleClass;

Result<double> operations_of(const Primitive& line) {
  DGX_TRY(const kernels::OperationCounts counts, kernels::count_operations(line));
  double sum = 0;
  for (const std::int64_t count : counts.by_op) sum += static_cast<double>(count);
  return sum;
}

std::int64_t bytes_of(const Primitive& line) {
  return element_count(line.shape).value() * static_cast<std::int64_t>(size_of(line.dtype));
}

/// Bits of a float's place and value in the sparse coding, at a density of a thousandth.
constexpr double kCodedBits = 43.5;

/// The bytes of so many floats when some slices have each added this share of numbers that are not 0.
std::int64_t coded_bytes(std::int64_t bytes, double density, std::int64_t slices) {
  const double share = density * static_cast<double>(slices) * kCodedBits / 32;
  return std::llround(static_cast<double>(bytes) * std::min(1.0, share)) + kLengthBytes;
}

/// Adds a line's operations to those of its home, of every rank, or of all slices.
void add(Stretch& stretch, double operations, SampleClass of, int home) {
  if (home != Classes::kEveryRank) {
    const auto rank = static_cast<std::size_t>(home);
    if (stretch.at_home.size() <= rank) stretch.at_home.resize(rank + 1);
    stretch.at_home[rank] += operations;
  } else {
    (of == SampleClass::kSharded ? stretch.of_slices : stretch.whole) += operations;
  }
}

/// Appends a line of class C to its phase: it is a stretch, behind which another begins.
void append_carried(std::vector<Stretch>& stretches, const Primitive& line, double operations,
                    std::optional<double> density) {
  Stretch stretch{operations, 0, Stretch::Carry{bytes_of(line), std::nullopt, density}};
  if (line.kind == Kind::kDot) stretch.carry->positions = element_count(line.fold).value();
  stretches.push_back(std::move(stretch));
}

/// Adds the rows that go to homes and back behind each phase.
void add_moves(const Program& program, const Classes& classes, const ByValue<std::size_t>& phase,
               StepWork& out) {
  using Way = HomeRows::Way;
  std::map<std::tuple<std::size_t, int, Way>, HomeRows> moved;
  const auto add = [&](ValueIndex v, int home, Way way) {
    HomeRows& rows = moved[{phase[v], home, way}];
    rows.bytes += bytes_of(program.values[v]);
    ++rows.messages;
  };
  for (const program::HomeMove& move : program::moves_of(program, classes)) {
    const int home = classes.home_of(move.value);
    if (home != Classes::kEveryRank) add(move.value, home, Way::kBack);
    for (const int each : move.homes) add(move.value, each, Way::kThere);
  }
  for (const auto& [key, rows] : moved) {
    const auto& [n, home, way] = key;
    out.phases[n].moved.push_back({home, way, rows.bytes, rows.messages});
  }
}

/// The values that a step's tail reads, or that become an entry which is not divided.
ByValue<bool> reads_of_tail(const Program& program, const Classes& classes,
                            const std::vector<ValueIndex>& divided) {
  ByValue<bool> out(program.values.size(), false);
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.next && !std::ranges::binary_search(divided, v)) out[*line.next] = true;
    if (line.kind == Kind::kInput || classes.body[v]) continue;
    for (const kernels::Access& access : line.accesses) out[access.value] = true;
  }
  return out;
}

}  // namespace

Result<StepWork> work_of(const Program& program, const Classes& classes, double density) {
  const auto divided = program::divided_entries(program, classes);
  const auto sparse = program::sparse_lines(program, classes, divided);
  const auto density_of = [&](ValueIndex v) {
    return std::ranges::binary_search(sparse, v) ? std::optional(density) : std::nullopt;
  };
  const ByValue<std::size_t> phase = program::waits_of(program, classes);
  const auto folds_behind = program::folds_behind_gathers(program, classes, phase);
  StepWork out;
  out.slices = classes.slices;
  out.phases.resize(*std::ranges::max_element(phase) + 1);
  std::vector<std::vector<Stretch>> behind(out.phases.size());
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.kind == Kind::kInput) continue;
    DGX_TRY(const double operations, operations_of(line));
    std::vector<Stretch>& stretches = out.phases[phase[v]].stretches;
    if (!classes.body[v]) {
      add(out.tail, operations, SampleClass::kWhole, classes.home_of(v));
    } else if (classes.of[v] == SampleClass::kCarried) {
      const bool is_behind = std::ranges::binary_search(folds_behind, v);
      append_carried(is_behind ? behind[phase[v]] : stretches, line, operations, density_of(v));
    } else {
      if (stretches.empty() || stretches.back().carry) stretches.emplace_back();
      add(stretches.back(), operations, classes.of[v], classes.home_of(v));
    }
  }
  for (std::size_t n = 0; n < behind.size(); ++n) {
    std::ranges::move(behind[n], std::back_inserter(out.phases[n].stretches));
    out.phases[n].behind = behind[n].size();
  }
  const std::vector<ValueIndex> gathered = program::gathered_in_body(classes);
  for (const ValueIndex v : gathered) out.phases[phase[v]].gathered.push_back(bytes_of(program.values[v]));
  add_moves(program, classes, phase, out);
  const ByValue<bool> is_read = reads_of_tail(program, classes, divided);
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.kind == Kind::kInput || !is_read[v]) continue;
    if (classes.of[v] == SampleClass::kCarried) {
      const auto of_slice = density_of(v);
      out.broadcast.push_back(of_slice ? coded_bytes(bytes_of(line), *of_slice, classes.slices)
                                       : bytes_of(line));
    }
    if (classes.of[v] == SampleClass::kSharded && !std::ranges::binary_search(gathered, v))
      out.tail_gathered.push_back(bytes_of(line));
  }
  for (const ValueIndex v : program::given_by_homes(program, classes, {}))
    out.given.push_back({classes.home_of(v), bytes_of(program.values[v])});
  return out;
}

std::int64_t carried_bytes(const Stretch::Carry& carry, std::int64_t slices, std::int64_t of_slices) {
  if (!carry.positions) return carry.bytes;
  const kernels::DotWords words = kernels::dot_words_at(*carry.positions / of_slices * slices);
  const std::int64_t count = (words.block ? 1 : 0) + (words.group ? 1 : 0) + (words.total ? 1 : 0);
  return count * (carry.density ? coded_bytes(carry.bytes, *carry.density, slices) : carry.bytes);
}

}  // namespace dgx::placement
