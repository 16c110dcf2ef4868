#include "dgx/program/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/merkle/tree.h"
#include "dgx/program/line.h"

namespace dgx::program {

using kernels::Primitive;
using kernels::Source;
using kernels::ValueIndex;

std::string print_program(const Program& program) {
  std::string text;
  for (const ValueIndex value : program.values.indices())
    text += print_line(program.values[value], value) + '\n';
  return text;
}

Result<Program> parse_program(std::string_view text) {
  if (text.size() > kMaxProgramBytes)
    return malformed(fmt::format("program: longer than {} bytes", kMaxProgramBytes));
  if (text.empty()) return malformed("program: is empty");
  if (text.back() != '\n')
    return malformed(fmt::format("program: byte {}: the last line has no newline", text.size()));
  Program program;
  for (const std::string_view line : lines_of(text)) {
    if (program.values.size() == kMaxLines)
      return malformed(fmt::format("program: more than {} lines", kMaxLines));
    DGX_TRY(Primitive primitive, parse_line(line, program.values.next()));
    program.values.push_back(std::move(primitive));
  }
  return program;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

Digest program_root(std::string_view text) {
  merkle::TreeBuilder tree;
  for (const std::string_view line : lines_of(text)) tree.add(as_bytes(line));
  return tree.root();
}

Digest program_root(const Program& program) { return program_root(print_program(program)); }

std::optional<ValueIndex> find_state_input(const Program& program, std::string_view name) {
  for (const ValueIndex value : state_inputs(program)) {
    if (program.values[value].source.name == name) return value;
  }
  return std::nullopt;
}

std::vector<ValueIndex> state_inputs(const Program& program) {
  std::vector<ValueIndex> inputs;
  for (const ValueIndex value : program.values.indices()) {
    const Primitive& line = program.values[value];
    if (line.kind == kernels::Kind::kInput && line.source.kind == Source::Kind::kState)
      inputs.push_back(value);
  }
  std::ranges::sort(inputs, {},
                    [&](ValueIndex v) -> const std::string& { return program.values[v].source.name; });
  return inputs;
}

std::vector<std::string> constant_entries(const Program& program) {
  std::vector<std::string> names;
  for (const ValueIndex value : state_inputs(program)) {
    const Primitive& line = program.values[value];
    if (line.next == value) names.push_back(line.source.name);
  }
  return names;
}

}  // namespace dgx::program
