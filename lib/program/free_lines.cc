#include "free_lines.h"

#include <algorithm>

#include "cut_messages.h"
#include "dgx/program/stages.h"
#include "input_lines.h"

namespace dgx::program {

using kernels::Access;
using kernels::ByValue;
using kernels::Primitive;
using kernels::ValueIndex;

namespace {

/// The values of the body that the tail reads, or that an entry becomes, or that are wanted.
ByValue<bool> leaving_body(const Program& program, const Classes& classes,
                           std::span<const ValueIndex> wanted) {
  ByValue<bool> out(program.values.size(), false);
  for (const ValueIndex v : wanted) out[v] = true;
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    if (line.next) out[*line.next] = true;
    if (classes.body[v]) continue;
    for (const Access& access : line.accesses) out[access.value] = true;
  }
  return out;
}

}  // namespace

ByValue<bool> needs_of_loss(const Program& program) {
  ByValue<bool> needed(program.values.size(), false);
  if (const auto loss = find_state_input(program, "loss"); loss && program.values[*loss].next)
    needed[*program.values[*loss].next] = true;
  for (std::size_t n = needed.size(); n-- > 0;) {
    const auto v = static_cast<ValueIndex>(n);
    if (!needed[v]) continue;
    for (const Access& access : program.values[v].accesses) needed[access.value] = true;
  }
  return needed;
}

ByValue<bool> free_lines(const Program& program, const Classes& classes, std::span<const ValueIndex> wanted) {
  const ByValue<bool> leaves = leaving_body(program, classes, wanted);
  ByValue<bool> out(program.values.size(), false);
  for (const ValueIndex v : program.values.indices()) {
    const Primitive& line = program.values[v];
    const auto is_free = [&](const Access& access) {
      const Primitive& read = program.values[access.value];
      return out[access.value] && (is_input(read) || classes.body[v] == classes.body[access.value]);
    };
    const bool bound = is_entry(line) || (!is_input(line) && classes.body[v] && leaves[v]) ||
                       (!is_input(line) && classes.of[v] == SampleClass::kCarried) ||
                       (!is_input(line) && std::ranges::find(wanted, v) != wanted.end());
    out[v] = !bound && std::ranges::all_of(line.accesses, is_free);
  }
  for (const CutMessage& message : cut_messages(program, classes)) {
    out[message.received] = true;
    if (!message.entry) continue;
    out[*message.entry] = out[*message.update] = true;
    for (const ValueIndex v : message.old) out[v] = true;
  }
  return out;
}

std::vector<ValueIndex> forward_lines(const Program& program, const Classes& classes) {
  const ByValue<bool> needed = needs_of_loss(program), free = free_lines(program, classes, {});
  std::vector<ValueIndex> out;
  for (const ValueIndex v : program.values.indices()) {
    if (!is_input(program.values[v]) && classes.body[v] && needed[v] && !free[v]) out.push_back(v);
  }
  return out;
}

}  // namespace dgx::program
