#include "dgx/placement/step_work.h"

#include <algorithm>
#include <cmath>

#include "dgx/kernels/dot_state.h"
#include "dgx/kernels/evaluate.h"

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

/// For each line of the body the number of gathers, one after another, that it waits for.
ByValue<std::size_t> gathers_before(const Program& program, const Classes& classes) {
  ByValue<std::size_t> out(program.values.size(), 0);
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    for (std::size_t n = 0; n < line.accesses.size() && classes.body[v]; ++n) {
      const ValueIndex read = line.accesses[n].value;
      const bool waits = program.values[read].kind != Kind::kInput && needs_whole(program, classes, v, n);
      out[v] = std::max(out[v], out[read] + (waits ? 1 : 0));
    }
  }
  return out;
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
  const ByValue<std::size_t> phase = gathers_before(program, classes);
  std::size_t last = 0;
  for (const ValueIndex v : program.values.indices())
    if (classes.body[v]) last = std::max(last, phase[v]);
  std::vector<PhaseWork> phases(last + 1);
  StepWork out;
  out.slices = classes.slices;
  out.phases.resize(last + 1);
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
  ByValue<bool> is_gathered(program.values.size(), false);
  for (const program::Gather& gather : classes.gathers) {
    if (!classes.body[gather.reader] || is_gathered[gather.value]) continue;
    is_gathered[gather.value] = true;
    out.phases[phase[gather.value]].gathered.push_back(bytes_of(program.values[gather.value]));
  }
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.kind == Kind::kInput || !is_read[v]) continue;
    if (classes.of[v] == SampleClass::kCarried) {
      const auto of_slice = density_of(v);
      out.broadcast.push_back(of_slice ? coded_bytes(bytes_of(line), *of_slice, classes.slices)
                                       : bytes_of(line));
    }
    if (classes.of[v] == SampleClass::kSharded && !is_gathered[v])
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
