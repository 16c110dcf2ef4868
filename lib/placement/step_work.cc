#include "dgx/placement/step_work.h"

#include <algorithm>
#include <cmath>

#include "dgx/kernels/dot_state.h"
#include "dgx/kernels/evaluate.h"
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
constexpr std::int64_t kLengthBytes = 8;

/// The bytes of so many floats when some slices have each added this share of numbers that are not 0.
std::int64_t coded_bytes(std::int64_t bytes, double density, std::int64_t slices) {
  const double share = density * static_cast<double>(slices) * kCodedBits / 32;
  return std::llround(static_cast<double>(bytes) * std::min(1.0, share)) + kLengthBytes;
}

/// The lines of a phase as stretches: a line of class C begins one, which ends behind it.
class PhaseWork {
 public:
  Status append(const Primitive& line, SampleClass of, std::optional<double> density) {
    DGX_TRY(const double operations, operations_of(line));
    if (of == SampleClass::kCarried) {
      Stretch stretch{operations, 0, Stretch::Carry{bytes_of(line), std::nullopt, density}};
      if (line.kind == Kind::kDot) stretch.carry->positions = element_count(line.fold).value();
      stretches_.push_back(stretch);
      return {};
    }
    if (stretches_.empty() || stretches_.back().carry) stretches_.emplace_back();
    (of == SampleClass::kSharded ? stretches_.back().of_slices : stretches_.back().whole) += operations;
    return {};
  }
  [[nodiscard]] std::vector<Stretch> take() { return std::move(stretches_); }

 private:
  std::vector<Stretch> stretches_;
};

}  // namespace

Result<StepWork> work_of(const Program& program, const Classes& classes, double density) {
  const auto divided = program::divided_entries(program, classes);
  const auto sparse = program::sparse_lines(program, classes, divided);
  const auto density_of = [&](ValueIndex v) {
    return std::ranges::binary_search(sparse, v) ? std::optional(density) : std::nullopt;
  };
  const ByValue<std::size_t> phase = program::waits_of(program, classes);
  std::vector<PhaseWork> phases(*std::ranges::max_element(phase) + 1);
  StepWork out;
  out.slices = classes.slices;
  out.phases.resize(phases.size());
  ByValue<bool> is_read(program.values.size(), false);  // by the tail
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.next && !std::ranges::binary_search(divided, v)) is_read[*line.next] = true;
    if (line.kind == Kind::kInput) continue;
    if (classes.body[v]) {
      DGX_CHECK(phases[phase[v]].append(line, classes.of[v], density_of(v)));
      continue;
    }
    for (const kernels::Access& access : line.accesses) is_read[access.value] = true;
    DGX_TRY(const double operations, operations_of(line));
    out.tail += operations;
  }
  for (std::size_t n = 0; n < phases.size(); ++n) out.phases[n].stretches = phases[n].take();
  const std::vector<ValueIndex> gathered = program::gathered_in_body(classes);
  for (const ValueIndex v : gathered) out.phases[phase[v]].gathered.push_back(bytes_of(program.values[v]));
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
  return out;
}

std::int64_t carried_bytes(const Stretch::Carry& carry, std::int64_t slices, std::int64_t of_slices) {
  if (!carry.positions) return carry.bytes;
  const kernels::DotWords words = kernels::dot_words_at(*carry.positions / of_slices * slices);
  const std::int64_t count = (words.block ? 1 : 0) + (words.group ? 1 : 0) + (words.total ? 1 : 0);
  return count * (carry.density ? coded_bytes(carry.bytes, *carry.density, slices) : carry.bytes);
}

}  // namespace dgx::placement
