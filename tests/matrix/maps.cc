#include <fmt/format.h>

#include "families.h"

namespace dgx::matrix {

using kernels::Kind;
using kernels::ScalarOp;

namespace {

const char* name_of(Values values) { return values == Values::kEdges ? "edges" : "ordinary"; }

/// The operands that an operation takes: floats, integers, or either (an operation on T T).
struct Signature {
  bool floats = false, integers = false;
  int condition = 0;  ///< leading operands that are always integers
};

Signature signature_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kMax:
    case ScalarOp::kMin:
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe: return {true, true, 0};
    case ScalarOp::kSelect: return {true, true, 1};
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kNot:
    case ScalarOp::kIdiv:
    case ScalarOp::kImod:
    case ScalarOp::kF32:
    case ScalarOp::kU8: return {false, true, 0};
    case ScalarOp::kI64: return {true, false, 0};
    default: return {true, false, 0};
  }
}

bool gives_integer(ScalarOp op, bool of_floats) {
  if (op >= ScalarOp::kEq && op <= ScalarOp::kGe) return true;
  if (op == ScalarOp::kAnd || op == ScalarOp::kOr || op == ScalarOp::kNot || op == ScalarOp::kI64)
    return true;
  if (op == ScalarOp::kF32) return false;
  return !of_floats;
}

/// A map of one step.
Case scalar(ScalarOp op, bool floats, std::int64_t size, Values values, Purity purity) {
  Case c;
  const int arity = arity_of(op);
  const int conditions = signature_of(op).condition;
  std::vector<int> operands;
  for (int n = 0; n < arity; ++n) {
    const DType dtype = floats && n >= conditions ? DType::kF32 : DType::kI64;
    const bool is_condition = n < conditions;
    operands.push_back(c.add(Input{dtype,
                                   {size},
                                   is_condition ? Values::kOrdinary : values,
                                   is_condition ? 0 : -300,
                                   is_condition ? 2 : 300,
                                   ""}));
  }
  Line line{Kind::kMap, {size}};
  std::string step{kernels::name_of(op)};
  for (int n = 0; n < arity; ++n) {
    int value = operands[static_cast<std::size_t>(n)];
    if (purity == Purity::kPoisoned && floats && n >= conditions) value = c.poison(value);
    line.x.push_back(fmt::format("{}[i0]", value));
    step += fmt::format(" x{}", n);
  }
  line.steps = {step};
  line.dtype = op == ScalarOp::kU8 ? DType::kU8 : gives_integer(op, floats) ? DType::kI64 : DType::kF32;
  c.add(line);
  c.name = fmt::format("scalar/{}/{}/{}{}/{}", kernels::name_of(op), floats ? "f32" : "i64", name_of(values),
                       purity == Purity::kPoisoned ? "-poisoned" : "", size);
  return c;
}

}  // namespace

std::vector<Case> scalar_cases() {
  std::vector<Case> cases;
  for (int n = 0; n < kernels::kScalarOpCount; ++n) {
    const auto op = static_cast<ScalarOp>(n);
    for (const bool floats : {true, false}) {
      const Signature signature = signature_of(op);
      if (floats ? !signature.floats : !signature.integers) continue;
      cases.push_back(scalar(op, floats, 4097, Values::kEdges, Purity::kFinite));
      cases.push_back(scalar(op, floats, 257, Values::kOrdinary, Purity::kFinite));
      if (floats) cases.push_back(scalar(op, floats, 2049, Values::kOrdinary, Purity::kPoisoned));
    }
  }
  for (const std::int64_t size : kSizes) {
    if (size != 4097) cases.push_back(scalar(ScalarOp::kFma, true, size, Values::kEdges, Purity::kFinite));
  }
  return cases;
}

namespace {

struct Read {
  const char* name;
  Shape of, out;
  std::string access;
  Shape iteration = {};
};

/// Adds a copy, and an expression with the same read.
void add_reads(std::vector<Case>& cases, const Read& read, DType dtype) {
  for (const bool expression : {false, true}) {
    Case c;
    c.add(Input{dtype, read.of, Values::kEdges, 0, 256, ""});
    Line line{Kind::kMap, read.out, {"0" + read.access}};
    line.dtype = dtype;
    line.iteration = read.iteration;
    if (expression && dtype == DType::kF32) line.steps = {"mul x0 0x1.8p-2", "add t0 x0"};
    if (expression && dtype != DType::kF32) line.steps = {"mul x0 3", "sub t0 x0"};
    c.add(line);
    c.name =
        fmt::format("access/{}/{}/{}", read.name, dgx::name_of(dtype), expression ? "expression" : "copy");
    cases.push_back(std::move(c));
  }
}

/// Integers of any size, copied into a u8 value, where they saturate, and a reader of that value.
Case narrowed(std::int64_t size) {
  Case c;
  const int x = c.add(Input{DType::kI64, {size}, Values::kEdges, 0, 0, ""});
  Line bytes{Kind::kMap, {size}, {fmt::format("{}[i0]", x)}};
  bytes.dtype = DType::kU8;
  const int copy = c.add(bytes);
  Line sums{Kind::kMap,
            {size},
            {fmt::format("{}[i0]", copy), fmt::format("{}[i0]", x)},
            {"imod x1 1000", "add t0 x0"}};
  sums.dtype = DType::kU8;
  const int sum = c.add(sums);
  c.add(Line{Kind::kMap,
             {size},
             {fmt::format("{}[i0]", copy), fmt::format("{}[i0]", sum)},
             {"sub x0 x1", "f32 t0"}});
  c.name = fmt::format("access/narrowed/{}", size);
  return c;
}

/// Adds reads through an index held in another value; some indices are out of range.
void add_gathers(std::vector<Case>& cases, DType index, std::int64_t rows, std::int64_t columns) {
  for (const bool expression : {false, true}) {
    Case c;
    const int table = c.add(Input{DType::kF32, {37, columns}, Values::kEdges, 0, 0, ""});
    const int at = c.add(Input{index, {rows}, Values::kOrdinary, index == DType::kU8 ? 0 : -4, 41, ""});
    Line line{
        Kind::kMap, {rows, columns}, {fmt::format("{}[$1,i1]?0x1.8p1", table), fmt::format("{}[i0]", at)}};
    if (expression) {
      line.x.push_back(fmt::format("{}[$1,{}-i1]?-0x0p0", table, columns - 1));
      line.steps = {"sub x0 x2", "mul t0 x0"};
    }
    c.add(line);
    c.name = fmt::format("access/indirect/{}/{}x{}/{}", dgx::name_of(index), rows, columns,
                         expression ? "expression" : "copy");
    cases.push_back(std::move(c));
  }
}

}  // namespace

std::vector<Case> access_cases() {
  std::vector<Case> cases;
  const std::vector<Read> reads = {
      {"whole", {33, 65}, {33, 65}, "[i0,i1]"},
      {"transposed", {33, 65}, {65, 33}, "[i1,i0]"},
      {"permuted", {5, 31, 17}, {17, 5, 31}, "[i1,i2,i0]"},
      {"row", {257}, {9, 257}, "[i1]"},
      {"column", {257}, {257, 9}, "[i0]"},
      {"reversed", {4097}, {4097}, "[4096-i0]"},
      {"slice", {70, 70}, {33, 31}, "[i0+7,2*i1+3]"},
      {"strided", {3, 2049}, {3, 683}, "[i0,3*i1]"},
      {"view", {6, 35}, {10, 21}, "@10.21[i0,i1]"},
      {"split", {12, 33}, {396}, "@12.33[i0,i1]", {12, 33}},
      {"padded", {31, 33}, {36, 37}, "[i0-2,i1-3]?0x1p0"},
      {"padded-outside", {5, 5}, {21, 257}, "[i0-8,i1-100]?-0x0p0"},
      {"dilated", {9, 31}, {17, 61}, "[i0/2,i1/2]?0x0p0"},
      {"divided-offset", {9, 31}, {29, 100}, "[(i0-1)/3,(2*i1+1)/3]?0x0p0"},
      {"nearest", {2, 9, 11}, {2, 18, 33}, "[i0,i1//2,i2//3]"},
      {"floored-outside", {9}, {100}, "[(i0-20)//5]?0x1p-3"},
      {"diagonal", {65, 65}, {65}, "[i0,i0]"},
      {"one-element", {257}, {33, 3}, "[256]"},
      {"sum-of-indices", {63}, {32, 32}, "[i0+i1]"},
      {"scalar", {}, {2049}, "[]"},
      {"eight", {2, 1, 3, 1, 2, 3, 1, 5}, {5, 3, 2, 2, 3}, "[i2,0,i4,0,i3,i1,0,i0]"},
  };
  for (const Read& read : reads) {
    add_reads(cases, read, DType::kF32);
    if (read.access.find('?') != std::string::npos) continue;
    for (const DType dtype : {DType::kI64, DType::kU8}) add_reads(cases, read, dtype);
  }
  for (const std::int64_t size : {33, 4097}) cases.push_back(narrowed(size));
  for (const DType index : {DType::kI64, DType::kU8}) {
    add_gathers(cases, index, 33, 31);
    add_gathers(cases, index, 257, 9);
    add_gathers(cases, index, 2049, 2);
  }
  return cases;
}

}  // namespace dgx::matrix
