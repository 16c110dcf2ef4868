#include "cases.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <sstream>

namespace dgx::test {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Parses "3,5"; "()" is a scalar.
Result<Shape> parse_shape(const std::string& text) {
  Shape shape;
  if (text == "()") return shape;
  std::istringstream sizes(text);
  for (std::string size; std::getline(sizes, size, ',');) {
    char* end = nullptr;
    shape.push_back(std::strtoll(size.c_str(), &end, 10));
    if (size.empty() || *end != 0 || shape.back() < 1) return malformed("'" + text + "' is not a shape");
  }
  return shape;
}

Result<Field> parse_field(const std::vector<std::string>& words, std::size_t first, std::string name) {
  if (words.size() < first + 2) return malformed("a shape and a rule are wanted");
  Field field;
  field.name = std::move(name);
  DGX_TRY(field.shape, parse_shape(words[first]));
  field.rule.assign(words.begin() + static_cast<std::ptrdiff_t>(first) + 1, words.end());
  return field;
}

Status parse_directive(Case& one, const std::string& line) {
  const auto words = words_of(line);
  const std::string& key = words[0];
  const auto text = [&](std::size_t n) { return n < words.size() ? words[n] : std::string(); };
  if (key == "input") {
    DGX_TRY(one.input, parse_field(words, 1, "x"));
  } else if (key == "parameter" || key == "buffer") {
    DGX_TRY(Field field, parse_field(words, 2, text(1)));
    (key == "buffer" ? one.buffers : one.parameters).push_back(std::move(field));
  } else if (key == "draw") {
    Draw draw;
    draw.name = text(1);
    draw.stream = static_cast<std::uint32_t>(std::atoi(text(2).c_str()));
    DGX_TRY(draw.shape, parse_shape(text(3)));
    one.draws.push_back(std::move(draw));
  } else if (key == "tolerance") {
    one.tolerance = std::atof(text(1).c_str());
  } else if (key == "steps") {
    one.steps = std::atoll(text(1).c_str());
    one.learning_rate = words.size() > 2 ? std::atof(text(2).c_str()) : 0.1;
  } else if (key == "refused") {
    const auto open = line.find('"'), close = line.rfind('"');
    if (open == close) return malformed("the text of a refusal is wanted in quotes");
    one.refused = line.substr(open + 1, close - open - 1);
  } else if (key == "training-only") {
    one.evaluates = false;
  } else {
    return malformed("unknown word '" + key + "'");
  }
  return {};
}

enum class Part { kDirectives, kSource, kReference };

Status check_case(const Case& one) {
  if (one.source.empty()) return malformed("case " + one.name + ": no source");
  if (one.input.shape.empty()) return malformed("case " + one.name + ": no input");
  if (one.steps < 1) return malformed("case " + one.name + ": no steps");
  return {};
}

}  // namespace

Result<std::vector<Case>> parse_cases(const std::string& text) {
  std::vector<Case> cases;
  Part part = Part::kDirectives;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("case ")) {
      cases.emplace_back().name = line.substr(5);
      part = Part::kDirectives;
    } else if (line == "reference") {
      part = Part::kReference;
    } else if (line.starts_with('#') || words_of(line).empty()) {
      continue;
    } else if (cases.empty()) {
      return malformed(fmt::format("line {}: a case is wanted", number));
    } else if (part != Part::kDirectives || line.starts_with("def ")) {
      if (part == Part::kDirectives) part = Part::kSource;
      (part == Part::kSource ? cases.back().source : cases.back().reference) += line + "\n";
    } else {
      Status status = parse_directive(cases.back(), line);
      if (!status.ok()) return within(fmt::format("line {}", number), status.error());
    }
  }
  for (Case& one : cases) {
    DGX_CHECK(check_case(one));
    if (one.reference.empty()) one.reference = one.source;
  }
  return cases;
}

Result<Tensor> filled(const Field& field, std::uint32_t seed) {
  for (const char letter : field.name) seed = seed * 31 + static_cast<unsigned char>(letter);
  std::mt19937 random(seed);
  Tensor tensor(field.dtype(), field.shape);
  const std::string& rule = field.rule[0];
  const auto number = [&](std::size_t n, double otherwise) {
    return n < field.rule.size() ? std::atof(field.rule[n].c_str()) : otherwise;
  };
  if (rule == "int") {
    std::uniform_int_distribution<std::int64_t> any(static_cast<std::int64_t>(number(1, 0)),
                                                    static_cast<std::int64_t>(number(2, 2)) - 1);
    for (auto& item : tensor.as<std::int64_t>()) item = any(random);
    return tensor;
  }
  std::normal_distribution<double> normal(0, number(1, 1));
  std::uniform_real_distribution<double> uniform(number(1, 0), number(2, 1));
  std::size_t n = 0;
  for (float& item : tensor.as<float>()) {
    if (rule == "normal") {
      item = static_cast<float>(normal(random));
    } else if (rule == "uniform") {
      item = static_cast<float>(uniform(random));
    } else if (rule == "values") {
      item = static_cast<float>(number(1 + n++ % (field.rule.size() - 1), 0));
    } else if (rule == "ones" || rule == "zeros") {
      item = rule == "ones" ? 1.0F : 0.0F;
    } else {
      return malformed(field.name + ": unknown rule '" + rule + "'");
    }
  }
  return tensor;
}

}  // namespace dgx::test
