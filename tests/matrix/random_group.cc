#include <fmt/format.h>

#include <algorithm>

#include "families.h"

namespace dgx::matrix {

using kernels::Kind;

namespace {

// A random group: inputs that fit a drawn base shape, then lines that read inputs and earlier lines by drawn
// accesses and compute drawn expressions. Nothing aims at a form that an executor recognises; all forms come
// up.
//
// A seed stands for a program. So the sequence of draws is fixed: every expression draws at most once, except
// within braces, since compilers differ in the order of a call's arguments.

/// A value of the group: what lines after it can read.
struct Value {
  int number;
  DType dtype;
  Shape shape;
};

/// An operand of an expression: an access, a step or a literal.
struct Part {
  std::string text;
  bool is_float;
};

/// A program that is being drawn.
struct Group {
  Random& random;
  Case made{};
  Shape base{};  ///< what most values have, or a part of it
  std::vector<Value> values{};
};

void draw_base(Group& group) {
  const std::int64_t rank = 1 + group.random.below(4);
  std::int64_t room = 9000;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t extent =
        group.random.one_in(3) ? group.random.pick(kSizes) : 1 + group.random.below(40);
    group.base.push_back(std::min(extent, room));
    room /= group.base.back();
  }
}

/// The base shape, a part of it, or with some extents replaced by one.
Shape near_base(Group& group) {
  Shape shape;
  for (const std::int64_t extent : group.base) {
    const std::int64_t kind = group.random.below(6);
    if (kind == 0) continue;
    shape.push_back(kind == 1 ? 1 : extent);
  }
  return group.random.one_in(2) ? group.base : shape;
}

void add_inputs(Group& group) {
  for (std::int64_t n = 2 + group.random.below(3); n > 0; --n) {
    const std::int64_t kind = group.random.below(8);
    const DType dtype = kind == 0 ? DType::kI64 : kind == 1 ? DType::kU8 : DType::kF32;
    const Values values = dtype != DType::kI64 && group.random.one_in(3) ? Values::kEdges : Values::kOrdinary;
    const Input input{dtype, near_base(group), values, dtype == DType::kU8 ? 0 : -3, 40, ""};
    group.values.push_back({group.made.add(input), dtype, input.shape});
  }
  if (group.values[0].dtype == DType::kF32 && !group.values[0].shape.empty() && group.random.one_in(4)) {
    group.values.push_back({group.made.poison(0), DType::kF32, group.values[0].shape});
  }
}

const Value& any_value(Group& group) {
  return group.random.one_in(2) ? group.values.back() : group.random.pick(group.values);
}
const Value* any_float(Group& group) {
  for (int tries = 0; tries < 8; ++tries) {
    const Value& value = any_value(group);
    if (value.dtype == DType::kF32) return &value;
  }
  return nullptr;
}

std::string symbol_at(std::size_t d, std::size_t iterations) {
  return d < iterations ? fmt::format("i{}", d) : fmt::format("k{}", d - iterations);
}
std::string fill_of(DType dtype) { return dtype == DType::kF32 ? "?0x1p-1" : "?1"; }

/// A coordinate from symbol `s`, of extent `extent`, for a dimension of `size`. Sets `misses` if it may be
/// out of range.
std::string coordinate(Random& random, const std::string& s, std::int64_t extent, std::int64_t size,
                       bool& misses) {
  if (size == extent) {
    switch (random.below(10)) {
      case 0:
        if (size > 1) return fmt::format("{}-{}", size - 1, s);
        break;
      case 1: misses = true; return fmt::format("{}{:+}", s, 1 - 2 * random.below(2));
      case 2: return s + "//2";
      case 3: misses = true; return s + "/2";
      default: break;
    }
    return s;
  }
  if (size > 2 * extent && random.one_in(2)) return fmt::format("2*{}+1", s);
  if (size > extent) return s;
  misses = true;
  return random.one_in(2) ? s : fmt::format("{}-{}", s, extent / 2 + 1);
}

/// An access to a value as a flat row of numbers, at a drawn linear index, by a line over `all`, whose first
/// `iterations` extents are outputs and the rest a fold.
std::string flat_access(Random& random, const Value& value, const Shape& all, std::size_t iterations) {
  const std::int64_t count = *element_count(value.shape);
  std::string text;
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (all[d] == 1 || random.one_in(4)) continue;
    const std::int64_t stride =
        1 + random.below(std::max<std::int64_t>(1, std::min<std::int64_t>(count / all[d], 400)));
    text += fmt::format("{}{}{}", text.empty() ? "" : "+", stride == 1 ? "" : fmt::format("{}*", stride),
                        symbol_at(d, iterations));
  }
  if (text.empty()) text = std::to_string(random.below(count));
  return fmt::format("{}@{}[{}]{}", value.number, count, text, fill_of(value.dtype));
}

/// An access to `value` by a line.
std::string access(Random& random, const Value& value, const Line& line, bool plain) {
  const std::size_t iterations = line.shape.size();
  Shape all = line.shape;
  all.insert(all.end(), line.fold.begin(), line.fold.end());
  if (value.shape.size() > all.size()) return flat_access(random, value, all, iterations);
  bool misses = false;
  std::string text;
  const std::size_t skip = all.size() - value.shape.size();
  for (std::size_t d = 0; d < value.shape.size(); ++d) {
    const std::string s = symbol_at(d + skip, iterations);
    const std::int64_t extent = all[d + skip], size = value.shape[d];
    const std::string one = extent == 1 || size == 1  ? "0"
                            : plain && size == extent ? s
                                                      : coordinate(random, s, extent, size, misses);
    text += (d == 0 ? "" : ",") + one;
  }
  return fmt::format("{}[{}]{}", value.number, text, misses ? fill_of(value.dtype) : "");
}

Part literal(Random& random, bool is_float) {
  static const std::vector<std::string> kFloats = {"0x1p0",  "-0x1.8p0", "0x1.99999ap-4", "0x0p0",
                                                   "-0x0p0", "0x1p-149", "0x1.fffffep127"};
  static const std::vector<std::string> kIntegers = {"0", "1", "-1", "3", "7", "-100"};
  return {random.pick(is_float ? kFloats : kIntegers), is_float};
}

Part step(std::vector<std::string>& steps, const std::string& text, bool is_float) {
  steps.push_back(text);
  return {fmt::format("t{}", steps.size() - 1), is_float};
}

Part unary(Random& random, std::vector<std::string>& steps, const Part& part) {
  static const std::vector<std::string> kFloats = {"sqrt", "neg",   "abs", "floor", "trunc", "rint",
                                                   "exp",  "expm1", "log", "log1p", "sin",   "cos",
                                                   "tanh", "erf",   "abs", "neg"};
  static const std::vector<std::string> kIntegers = {"neg", "abs", "not", "u8"};
  return step(steps, random.pick(part.is_float ? kFloats : kIntegers) + " " + part.text, part.is_float);
}

Part binary(Random& random, std::vector<std::string>& steps, Part a, Part b) {
  static const std::vector<std::string> kFloats = {"add", "sub", "mul", "div", "max",
                                                   "min", "add", "sub", "mul"};
  static const std::vector<std::string> kIntegers = {"add", "sub", "mul", "idiv", "imod",
                                                     "and", "or",  "max", "min"};
  static const std::vector<std::string> kComparisons = {"eq", "ne", "lt", "le", "gt", "ge"};
  if (a.is_float != b.is_float) {
    Part& integer = a.is_float ? b : a;
    const Part& real = a.is_float ? a : b;
    if (random.one_in(2))
      return step(steps, fmt::format("select {} {} {}", integer.text, real.text, literal(random, true).text),
                  true);
    integer = step(steps, "f32 " + integer.text, true);
  }
  const std::int64_t kind = random.below(8);
  const std::string& comparison = random.pick(kComparisons);
  if (kind == 0) return step(steps, fmt::format("{} {} {}", comparison, a.text, b.text), false);
  if (kind == 1) {
    const Part condition =
        step(steps, fmt::format("{} {} {}", comparison, a.text, literal(random, a.is_float).text), false);
    return step(steps, fmt::format("select {} {} {}", condition.text, b.text, a.text), a.is_float);
  }
  if (kind == 2 && a.is_float)
    return step(steps, fmt::format("fma {} {} {}", a.text, b.text, literal(random, true).text), true);
  return step(steps, fmt::format("{} {} {}", random.pick(a.is_float ? kFloats : kIntegers), a.text, b.text),
              a.is_float);
}

/// Steps that use every part; the last gives a float if `to_float`, else an integer.
std::vector<std::string> expression(Random& random, std::vector<Part> parts, bool to_float,
                                    const std::vector<std::string>& index_symbols) {
  std::vector<std::string> steps;
  if (!index_symbols.empty() && random.one_in(3)) parts.push_back({random.pick(index_symbols), false});
  if (random.one_in(3)) parts.push_back(literal(random, random.one_in(4)));
  while (parts.size() > 1) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(parts.size() - 1)));
    Part a = parts[at], b = parts[at + 1];
    if (random.one_in(3)) a = unary(random, steps, a);
    if (random.one_in(4)) std::swap(a, b);
    parts[at] = binary(random, steps, a, b);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Part last = parts[0];
  if (steps.empty() || random.one_in(4)) last = unary(random, steps, last);
  if (last.is_float != to_float) step(steps, (to_float ? "f32 " : "i64 ") + last.text, to_float);
  return steps;
}

/// The index symbols of a line.
std::vector<std::string> symbols(const Line& line) {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < line.shape.size() + line.fold.size(); ++d)
    out.push_back(symbol_at(d, line.shape.size()));
  return out;
}

void push(Group& group, const Line& line) {
  const int number = group.made.add(line);
  group.values.push_back({number, line.dtype, line.shape});
}

/// Splits the base into outputs and a fold.
Line split(Group& group, Kind kind) {
  Line line;
  line.kind = kind;
  line.shape = group.base;
  const auto folded =
      static_cast<std::ptrdiff_t>(1 + group.random.below(static_cast<std::int64_t>(group.base.size())));
  line.fold.assign(group.base.end() - folded, group.base.end());
  line.shape.erase(line.shape.end() - folded, line.shape.end());
  return line;
}

void add_computed(Group& group, Kind kind) {
  Line line = kind == Kind::kMap ? Line{} : split(group, kind);
  if (kind == Kind::kMap) line.shape = group.random.one_in(4) ? near_base(group) : group.base;
  std::vector<Part> parts;
  for (std::int64_t n = 1 + group.random.below(4); n > 0; --n) {
    const Value& value = any_value(group);
    parts.push_back({fmt::format("x{}", line.x.size()), value.dtype == DType::kF32});
    const bool plain = group.random.one_in(2);
    line.x.push_back(access(group.random, value, line, plain));
  }
  const bool to_float = !group.random.one_in(6);
  line.dtype = kind == Kind::kArgmax || !to_float ? DType::kI64 : DType::kF32;
  if (kind == Kind::kMap && !to_float && group.random.one_in(2)) line.dtype = DType::kU8;
  const bool is_copy = parts.size() == 1 && parts[0].is_float == to_float && group.random.one_in(4);
  if (!is_copy) line.steps = expression(group.random, parts, to_float, symbols(line));
  push(group, line);
}

void add_dot(Group& group) {
  const Value* a = any_float(group);
  const Value* b = any_float(group);
  if (a == nullptr || b == nullptr) return add_computed(group, Kind::kMap);
  Line line = split(group, Kind::kDot);
  line.x = {access(group.random, *a, line, group.random.one_in(2)),
            access(group.random, *b, line, group.random.one_in(2))};
  push(group, line);
}

void add_chain(Group& group) {
  const Value* value = any_float(group);
  if (value == nullptr || *element_count(group.base) > 4000) return add_computed(group, Kind::kMap);
  Line line = split(group, Kind::kChain);
  line.x = {access(group.random, *value, line, true)};
  line.steps = {group.random.one_in(2) ? "add acc x0" : "fma x0 0x1p-2 acc"};
  line.init = group.random.one_in(2) ? "0x0p0" : "-0x1p0";
  if (group.random.one_in(2)) line.when = {line.shape.empty() ? "ge k0 1" : "le k0 i0"};
  push(group, line);
}

void add_line(Group& group) {
  const std::int64_t kind = group.random.below(10);
  if (kind < 6) return add_computed(group, Kind::kMap);
  if (kind == 6) return add_computed(group, Kind::kSum);
  if (kind == 7) return add_computed(group, group.random.one_in(2) ? Kind::kMax : Kind::kArgmax);
  if (kind == 8) return add_dot(group);
  return add_chain(group);
}

}  // namespace

Case random_group(Random& random) {
  Group group{random};
  draw_base(group);
  add_inputs(group);
  for (std::int64_t n = 2 + random.below(9); n > 0; --n) add_line(group);
  return std::move(group.made);
}

Case random_case(Random& random, std::int64_t work) {
  const auto size = [&](std::int64_t most) {
    return random.one_in(3) ? std::min(random.pick(kSizes), most) : 1 + random.below(most);
  };
  const auto purity = random.one_in(4) ? Purity::kPoisoned : Purity::kFinite;
  const auto values = purity == Purity::kFinite && random.one_in(2) ? Values::kEdges : Values::kOrdinary;
  switch (random.below(8)) {
    case 0: {
      ProductForm form{random.one_in(3) ? 1 + random.below(5) : 1,
                       size(300),
                       size(300),
                       1,
                       random.one_in(2),
                       random.one_in(2),
                       1 + random.below(2),
                       random.one_in(2)};
      form.depth = size(std::clamp<std::int64_t>(work / (form.batch * form.rows * form.columns), 1, 9000));
      return product(form, purity, values);
    }
    case 1: {
      static const std::vector<Kind> kKinds = {Kind::kSum, Kind::kMax, Kind::kArgmax};
      FoldForm form{
          random.pick(kKinds), {size(200)}, {}, random.one_in(3), static_cast<int>(random.below(3))};
      form.fold = {size(std::clamp<std::int64_t>(work / 4 / form.outputs[0], 1, 9000))};
      if (random.one_in(2)) form.fold.push_back(1 + random.below(4));
      return fold(form, purity, values);
    }
    case 2:
    case 3: return random_window(random);
    case 4: return random_row_program(random);
    default: return random_group(random);
  }
}

}  // namespace dgx::matrix
