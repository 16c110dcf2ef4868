#include "bisect/line_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "dgx/core/text.h"
#include "dgx/program/cut_spec.h"

namespace dgx::jobs {

using kernels::Source;

namespace {

constexpr std::string_view kLetters = "abc";

/// "weight of layer 0" for "0.weight": the last part of a parameter's path is its own name.
std::string words_of_parameter(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  return fmt::format("{} of layer {}", name.substr(dot + 1), name.substr(0, dot));
}

std::string words_of_schedule(const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{"lr"}) return "the learning rate";
  if (names == std::vector<std::string>{"-lr"}) return "minus the learning rate";
  return fmt::format("the schedule's {}", fmt::join(names, ", "));
}

std::string words_of_source(const Source& source) {
  switch (source.kind) {
    case Source::Kind::kState: return words_of_entry(source.name) + " before the step";
    case Source::Kind::kBatch:
      return source.name == program::kSampleNumbers ? "the numbers of the step's samples"
                                                    : fmt::format("{} of the step's samples", source.name);
    case Source::Kind::kSchedule: return words_of_schedule(source.of);
    case Source::Kind::kConstant: return "a constant of the program";
    case Source::Kind::kUniform: return "random numbers of dropout " + source.name;
  }
  return {};
}

/// A line's provenance in words: "28 mm" is ATen call 28, "sgd 0.weight" the optimiser's update of a
/// parameter.
std::string words_of_provenance(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return fmt::format("a value of \"{}\"", text);
  const std::string_view first = text.substr(0, space);
  const std::string_view rest = text.substr(space + 1);
  const bool is_call = std::all_of(first.begin(), first.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_call) return fmt::format("a value of {}, call {} of the step", rest, first);
  if (first == "sgd" || first == "adam" || first == "adamw")
    return fmt::format("{}'s update of the {}", first, words_of_parameter(rest));
  return fmt::format("a value of {}", text);
}

/// The state input that takes this value when the step ends; null if none does.
const kernels::Primitive* input_that_becomes(const program::Program& program, std::int64_t value) {
  const auto found = std::find_if(
      program.values.begin(), program.values.end(),
      [&](const kernels::Primitive& line) { return line.next && to_number(*line.next) == value; });
  return found == program.values.end() ? nullptr : &*found;
}

/// ", number 100,000 [127, 432]": the place of an element, by rows and columns if it has some; empty for an
/// only element.
std::string words_of_place(const kernels::Primitive* line, std::int64_t element) {
  const auto is_one = [](std::int64_t count) { return count == 1; };
  if (line != nullptr && std::all_of(line->shape.begin(), line->shape.end(), is_one)) return {};
  std::string out = ", number " + grouped(element);
  if (line == nullptr || line->shape.size() < 2) return out;
  std::vector<std::int64_t> at(line->shape.size());
  for (std::size_t i = at.size(); i-- > 0;) {
    if (line->shape[i] <= 0) return out;
    at[i] = element % line->shape[i];
    element /= line->shape[i];
  }
  return out + fmt::format(" [{}]", fmt::join(at, ", "));
}

/// Reads "value 54[100000]"; false for any other text.
bool read_element(std::string_view from, std::int64_t& value, std::int64_t& element) {
  constexpr std::string_view kStart = "value ";
  if (!from.starts_with(kStart) || !from.ends_with(']')) return false;
  from.remove_prefix(kStart.size());
  from.remove_suffix(1);
  const std::size_t bracket = from.find('[');
  if (bracket == std::string_view::npos) return false;
  const auto read = [](std::string_view digits, std::int64_t& out) {
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  };
  return read(from.substr(0, bracket), value) && read(from.substr(bracket + 1), element);
}

}  // namespace

const kernels::Primitive* StepLines::find(std::int64_t value) const {
  if (value == opened) return line;
  if (program == nullptr || value < 0 || value >= std::ssize(program->values)) return nullptr;
  return &program->values[kernels::ValueIndex(value)];
}

std::string words_of_entry(std::string_view name) {
  constexpr std::string_view kModel = "model/";
  constexpr std::string_view kOptimizer = "optimizer/";
  if (name.starts_with(kModel)) return "the " + words_of_parameter(name.substr(kModel.size()));
  if (!name.starts_with(kOptimizer)) return fmt::format("the {}", name);
  name.remove_prefix(kOptimizer.size());
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return fmt::format("the optimiser's {}", name);
  return fmt::format("the {} of the {}", name.substr(0, slash), words_of_parameter(name.substr(slash + 1)));
}

std::string role_of_value(const StepLines& lines, std::int64_t value) {
  if (lines.program != nullptr) {
    const kernels::Primitive* input = input_that_becomes(*lines.program, value);
    // "the new weight …", of "the weight …".
    if (input != nullptr) return "the new " + words_of_entry(input->source.name).substr(4);
  }
  const kernels::Primitive* line = lines.find(value);
  if (line == nullptr) return "value " + grouped(value);
  if (line->kind == kernels::Kind::kInput) return words_of_source(line->source);
  if (line->provenance.empty()) return "value " + grouped(value);
  return words_of_provenance(line->provenance);
}

std::string role_of_element(const StepLines& lines, std::int64_t value, std::int64_t element) {
  return role_of_value(lines, value) + words_of_place(lines.find(value), element);
}

std::string role_of_operand(const StepLines& lines, std::string_view from) {
  std::int64_t value = 0;
  std::int64_t element = 0;
  if (read_element(from, value, element)) return role_of_element(lines, value, element);
  if (from == "accumulator") return "the running result before it";
  if (from == "literal") return "a constant of the line";
  if (from.starts_with("part ")) return "a finished part";
  if (from.starts_with("fill ")) return "the fill for a place outside the value";
  if (from.starts_with("step ")) return fmt::format("the result of {} of the line", from);
  return fmt::format("the index {}", from);
}

std::string formula_of(std::string_view operation, std::size_t operands) {
  struct Formula {
    std::string_view operation;
    std::string_view text;
  };
  constexpr std::array<Formula, 20> kFormulas = {{{"add", "a + b"},
                                                  {"sub", "a − b"},
                                                  {"mul", "a × b"},
                                                  {"div", "a ÷ b"},
                                                  {"fma", "a × b + c, rounded once"},
                                                  {"sqrt", "the square root of a"},
                                                  {"neg", "−a"},
                                                  {"abs", "a without its sign"},
                                                  {"max", "the greater of a and b"},
                                                  {"min", "the lesser of a and b"},
                                                  {"fold max", "the greater of a and b"},
                                                  {"eq", "1 if a = b, else 0"},
                                                  {"ne", "1 if a ≠ b, else 0"},
                                                  {"lt", "1 if a < b, else 0"},
                                                  {"le", "1 if a ≤ b, else 0"},
                                                  {"gt", "1 if a > b, else 0"},
                                                  {"ge", "1 if a ≥ b, else 0"},
                                                  {"select", "b, which the condition a chooses"},
                                                  {"copy", "a copy: nothing is computed"},
                                                  {"input", "an input: what task, data and step give"}}};
  for (const Formula& formula : kFormulas) {
    if (formula.operation == operation) return std::string(formula.text);
  }
  std::string out(operation);
  for (std::size_t i = 0; i < std::min(operands, kLetters.size()); ++i)
    out += fmt::format("{}{}", i == 0 ? "(" : ", ", kLetters[i]);
  return operands > 0 ? out + ")" : out;
}

}  // namespace dgx::jobs
