#include "rewrite/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace dgx::exec {

using kernels::ByValue;
using kernels::Kind;
using kernels::kNoValue;
using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;

namespace {

/// The phase of each line of the local program but inputs: that of the step's line, or where it is none of
/// the step's, the first that has what it reads.
ByValue<std::size_t> phase_of_lines(const program::Piece& local, const ByValue<std::size_t>& waits) {
  ByValue<std::size_t> out;
  for (const ValueIndex line : local.origins.indices()) {
    const ValueIndex value = local.origins[line].value;
    const Primitive& made = local.program.values[line];
    std::size_t phase = value == kNoValue || made.kind == Kind::kInput ? 0 : waits[value];
    if (value == kNoValue) {
      for (const kernels::Access& access : made.accesses) phase = std::max(phase, out[access.value]);
    }
    out.push_back(phase);
  }
  return out;
}

/// A phase while its lines are appended.
class PhaseWriter {
 public:
  PhaseWriter(const program::Piece& local, Phase& phase) : local_(local), phase_(phase) {}

  void append(ValueIndex line) {
    Primitive made = local_.program.values[line];
    for (kernels::Access& access : made.accesses) access.value = here(access.value);
    push(line, std::move(made));
  }
  /// The entry that a line becomes, before it.
  void append_carry(ValueIndex carry) { here(carry); }
  /// Sets what carries become.
  void finish() {
    for (Primitive& line : phase_.piece.program.values) {
      if (line.next) line.next = numbers_.at(*line.next);
    }
  }

 private:
  /// The number of the local program's line in this phase: an input unless the phase makes it.
  ValueIndex here(ValueIndex line) {
    const auto found = numbers_.find(line);
    if (found != numbers_.end()) return found->second;
    const Primitive& made = local_.program.values[line];
    if (made.kind == Kind::kInput) return push(line, made);
    Primitive input;
    input.kind = Kind::kInput;
    input.dtype = made.dtype;
    input.shape = made.shape;
    input.source = {Source::Kind::kState, fmt::format("made/{}", line), {}};
    return push(line, std::move(input));
  }
  ValueIndex push(ValueIndex line, Primitive made) {
    const ValueIndex at = phase_.origin.next();
    phase_.piece.program.values.push_back(std::move(made));
    phase_.piece.origins.push_back(local_.origins[line]);
    phase_.origin.push_back(line);
    numbers_[line] = at;
    return at;
  }

  const program::Piece& local_;
  Phase& phase_;
  std::map<ValueIndex, ValueIndex> numbers_;  // by line of the local program
};

/// The phase of these lines of the local program, in the order in which they stand here.
Phase phase_in_order(const program::Piece& local, const std::vector<ValueIndex>& lines) {
  std::map<ValueIndex, ValueIndex> carries;  // by the line that they become
  for (const ValueIndex line : local.origins.indices()) {
    if (const auto next = local.program.values[line].next) carries[*next] = line;
  }
  Phase phase;
  PhaseWriter writer(local, phase);
  for (const ValueIndex line : lines) {
    if (const auto carry = carries.find(line); carry != carries.end()) writer.append_carry(carry->second);
    writer.append(line);
  }
  writer.finish();
  return phase;
}

/// A phase's lines with some folds behind all others. Lines that are none of the step's, such as copies of
/// operands as matrices, come with the folds where no other line reads them.
std::vector<ValueIndex> with_folds_last(const program::Piece& local, const std::vector<ValueIndex>& lines,
                                        const std::vector<ValueIndex>& folds) {
  std::vector<ValueIndex> first, last;
  ByValue<bool> is_read(local.origins.size(), false);  // by one of the first
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const ValueIndex v = local.origins[*line].value;
    const bool is_last = v == kNoValue ? !is_read[*line] : std::ranges::binary_search(folds, v);
    (is_last ? last : first).push_back(*line);
    for (const kernels::Access& access : local.program.values[*line].accesses)
      is_read[access.value] = is_read[access.value] || !is_last;
  }
  std::ranges::reverse(first);
  first.insert(first.end(), last.rbegin(), last.rend());
  return first;
}

}  // namespace

std::vector<Phase> phases_of(const program::Piece& local, const ByValue<std::size_t>& waits,
                             const std::vector<ValueIndex>& last) {
  const ByValue<std::size_t> phase = phase_of_lines(local, waits);
  const std::size_t count = waits.empty() ? 0 : *std::ranges::max_element(waits) + 1;
  std::vector<Phase> phases;
  for (std::size_t n = 0; n < count; ++n) {
    std::vector<ValueIndex> lines;
    for (const ValueIndex line : local.origins.indices()) {
      if (local.program.values[line].kind != Kind::kInput && phase[line] == n) lines.push_back(line);
    }
    phases.push_back(phase_in_order(local, with_folds_last(local, lines, last)));
  }
  return phases;
}

Phase phase_making(const program::Piece& local, const std::vector<ValueIndex>& lines,
                   const std::function<bool(ValueIndex line)>& is_free) {
  ByValue<bool> made(local.origins.size(), false);
  for (const ValueIndex line : lines) made[line] = true;
  for (std::size_t n = made.size(); n-- > 0;) {
    const auto line = static_cast<ValueIndex>(n);
    if (!made[line]) continue;
    for (const kernels::Access& access : local.program.values[line].accesses) {
      if (local.program.values[access.value].kind != Kind::kInput && is_free(access.value))
        made[access.value] = true;
    }
  }
  std::vector<ValueIndex> all;
  for (const ValueIndex line : local.origins.indices()) {
    if (made[line]) all.push_back(line);
  }
  return phase_in_order(local, all);
}

}  // namespace dgx::exec
