#include "case.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "dgx/program/number_text.h"

namespace dgx::matrix {

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

std::string join(const Shape& shape, char separator) {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : std::string(1, separator)) + std::to_string(extent);
  return text;
}

std::string entry_name(std::size_t input) { return fmt::format("model/{:02}", input); }
std::string field_name(std::size_t input) { return fmt::format("f{:02}", input); }

namespace {

std::string strings(const char* key, const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "\"" : ",\"") + one + "\"";
  return all.empty() ? "" : fmt::format("\"{}\":[{}],", key, text);
}

std::string input_text(const Input& input, std::size_t v, bool is_field, std::optional<std::size_t> next) {
  const std::string head =
      fmt::format("{{\"k\":\"input\",{}{}\"s\":[{}],", next ? fmt::format("\"next\":{},", *next) : "",
                  input.constant.empty() ? "" : "\"of\":[\"" + input.constant + "\"],", join(input.shape));
  const std::string source = is_field                 ? "batch " + field_name(v)
                             : input.constant.empty() ? "state " + entry_name(v)
                                                      : "constant";
  return fmt::format("{}\"src\":\"{}\",\"t\":\"{}\",\"v\":{}}}\n", head, source, name_of(input.dtype), v);
}

std::string entry_text(const char* name, DType dtype, const Shape& shape, std::size_t v, std::size_t next) {
  return fmt::format(
      "{{\"k\":\"input\",\"next\":{},\"s\":[{}],\"src\":\"state {}\",\"t\":\"{}\",\"v\":{}}}\n", next,
      join(shape), name, name_of(dtype), v);
}

}  // namespace

int Case::add(Input input) {
  inputs.push_back(std::move(input));
  return static_cast<int>(inputs.size() - 1);
}

int Case::add_text(std::string line) {
  lines.push_back(std::move(line));
  return static_cast<int>(inputs.size() + lines.size() - 1);
}

int Case::add(const Line& line) {
  const bool folds = line.kind != kernels::Kind::kMap;
  std::string text = "{" + strings("do", line.steps);
  if (folds) text += fmt::format("\"f\":[{}],", join(line.fold));
  if (!line.iteration.empty()) text += fmt::format("\"i\":[{}],", join(line.iteration));
  if (!line.init.empty()) text += "\"init\":\"" + line.init + "\",";
  text += fmt::format("\"k\":\"{}\",\"s\":[{}],\"t\":\"{}\",\"v\":@V,", name_of(line.kind), join(line.shape),
                      name_of(line.dtype));
  text += strings("when", line.when) + strings("x", line.x);
  text.back() = '}';
  return add_text(std::move(text));
}

int Case::poison(int value) {
  const Shape shape = inputs[static_cast<std::size_t>(value)].shape;
  std::string coordinates;
  for (std::size_t d = 0; d < shape.size(); ++d) coordinates += fmt::format("{}i{}", d == 0 ? "" : ",", d);
  return add(Line{kernels::Kind::kMap,
                  shape,
                  {fmt::format("{}[{}]", value, coordinates)},
                  {"ge x0 0x1p11", "select t0 inf x0", "le x0 -0x1p11", "select t2 -inf t1", "abs x0",
                   "lt t4 0x1p-11", "sub inf inf", "select t5 t6 t3"}});
}

Result<std::shared_ptr<const program::Program>> program_of(const Case& c, const Form& form) {
  const std::size_t last = c.inputs.size() + c.lines.size() - 1;
  std::string text;
  for (std::size_t v = 0; v < c.inputs.size(); ++v) {
    const bool stays = !form.in_place || v > 0;
    const bool is_field = form.is_field(c.inputs[v]);
    const bool changes = !form.evaluation && !is_field && c.inputs[v].constant.empty();
    text += input_text(c.inputs[v], v, is_field, changes ? std::optional(stays ? v : last) : std::nullopt);
  }
  std::size_t v = c.inputs.size();
  for (std::string line : c.lines) {
    line.replace(line.find("@V"), 2, std::to_string(v++));
    text += line + "\n";
  }
  if (!form.evaluation) {
    text += entry_text("loss", DType::kF32, {}, v, v);
    text += entry_text("step", DType::kI64, {}, v + 1, v + 2);
    text += fmt::format(R"({{"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":{},"x":["{}[]"]}})"
                        "\n",
                        v + 2, v + 1);
  }
  DGX_TRY(program::Program made, program::parse_program(text));
  if (form.keep_last) {
    const kernels::Primitive& kept = made.values[kernels::ValueIndex(last)];
    text += entry_text("model/z", kept.dtype, kept.shape, v + 3, last);
    DGX_TRY(made, program::parse_program(text));
  }
  return std::make_shared<const program::Program>(std::move(made));
}

namespace {

float float_of(std::uint64_t sign, std::uint64_t exponent, std::uint64_t fraction) {
  return std::bit_cast<float>(
      static_cast<std::uint32_t>((sign & 1) << 31 | exponent << 23 | (fraction & 0x7FFFFF)));
}

float ordinary(Random& random) {
  const std::uint64_t word = random.next();
  const std::uint64_t kind = word >> 58;
  if (kind == 0) return float_of(word, 0, 0);
  if (kind < 4) return float_of(word, 127, 0);
  return float_of(word, 115 + (word >> 32) % 24, word >> 1);
}

/// A finite number of any kind.
float edge(Random& random) {
  const std::uint64_t word = random.next();
  const std::uint64_t sign = word >> 40;
  switch (word >> 60) {
    case 0: return float_of(sign, 0, 0);
    case 1:
    case 2: return float_of(sign, 0, word);  // subnormal
    case 3: return float_of(sign, 1, word % 4);
    case 4: return float_of(sign, 254, 0x7FFFFF - word % 4);
    case 5: return float_of(sign, 127 + word % 2, 0);
    case 6:
    case 7:
    case 8: return float_of(sign, 1 + (word >> 32) % 254, word);
    default: return float_of(sign, 115 + (word >> 32) % 24, word);
  }
}

std::int64_t edge_integer(Random& random) {
  const std::uint64_t word = random.next();
  const int size = static_cast<int>(word % 64);
  const auto number = static_cast<std::int64_t>(random.next()) >> size;
  switch (word >> 61) {
    case 0: return static_cast<std::int64_t>(word >> 32) % 3 - 1;
    case 1:
      return word >> 60 & 1 ? std::numeric_limits<std::int64_t>::min()
                            : std::numeric_limits<std::int64_t>::max();
    default: return number;
  }
}

void fill(const Input& input, Random& random, Tensor& tensor) {
  const bool edges = input.values == Values::kEdges;
  for (float& number : input.dtype == DType::kF32 ? tensor.as<float>() : std::span<float>()) {
    number = edges ? edge(random) : ordinary(random);
  }
  const auto integer = [&] { return input.least + random.below(input.below - input.least); };
  for (std::int64_t& number :
       input.dtype == DType::kI64 ? tensor.as<std::int64_t>() : std::span<std::int64_t>()) {
    number = edges ? edge_integer(random) : integer();
  }
  for (std::uint8_t& number : input.dtype == DType::kU8 ? tensor.bytes() : std::span<std::uint8_t>()) {
    number = static_cast<std::uint8_t>(integer());
  }
}

}  // namespace

kernels::ByValue<Tensor> input_tensors(const Case& c, std::uint64_t seed) {
  kernels::ByValue<Tensor> tensors;
  Random random(seed);
  for (const Input& input : c.inputs) {
    tensors.push_back(Tensor(input.dtype, input.shape));
    if (input.constant.empty()) {
      fill(input, random, tensors.back());
    } else {
      tensors.back().as<float>()[0] = *program::parse_hex_float(input.constant);
    }
  }
  return tensors;
}

}  // namespace dgx::matrix
