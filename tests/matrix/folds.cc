#include <fmt/format.h>

#include "families.h"

namespace dgx::matrix {

using kernels::Kind;

namespace {

std::string indices(char symbol, std::size_t count) {
  std::string text;
  for (std::size_t d = 0; d < count; ++d) text += fmt::format("{}{}{}", d == 0 ? "" : ",", symbol, d);
  return text;
}

std::string both(const std::string& a, const std::string& b) {
  return a + (a.empty() || b.empty() ? "" : ",") + b;
}

Shape joined(const Shape& a, const Shape& b) {
  Shape all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

const char* suffix(Purity purity, Values values) {
  if (purity == Purity::kPoisoned) return "-poisoned";
  return values == Values::kEdges ? "-edges" : "";
}

DType result_of(Kind kind, DType dtype) { return kind == Kind::kArgmax ? DType::kI64 : dtype; }

/// A fold over windows of rows, as in pooling.
Case windowed(Kind kind, std::int64_t size, std::int64_t stride, Purity purity) {
  Case c;
  int x = c.add(Input{DType::kF32, {3, size, size}, Values::kOrdinary, 0, 0, ""});
  if (purity == Purity::kPoisoned) x = c.poison(x);
  const std::int64_t out = (size + 2 - 3) / stride + 1;
  const std::string step = stride == 1 ? "" : fmt::format("{}*", stride);
  Line line{
      kind,
      {3, out, out},
      {fmt::format("{0}[i0,{1}i1+k0-1,{1}i2+k1-1]?{2}", x, step, kind == Kind::kSum ? "0x0p0" : "-inf")}};
  line.fold = {3, 3};
  line.dtype = result_of(kind, DType::kF32);
  c.add(line);
  c.name = fmt::format("fold/{}/window/{}-stride-{}{}", name_of(kind), size, stride,
                       suffix(purity, Values::kOrdinary));
  return c;
}

Case of_integers(Kind kind, DType dtype, const Shape& outputs, std::int64_t size,
                 DType result = DType::kI64) {
  Case c;
  const int x = c.add(Input{dtype, joined(outputs, {size}), Values::kEdges, 0, 256, ""});
  Line line{kind, outputs, {fmt::format("{}[{}]", x, both(indices('i', outputs.size()), "k0"))}};
  line.fold = {size};
  line.dtype = result;
  c.add(line);
  c.name = fmt::format("fold/{}/{}-{}/[{}]-{}", name_of(kind), dgx::name_of(dtype), dgx::name_of(result),
                       join(outputs), size);
  return c;
}

}  // namespace

Case fold(const FoldForm& form, Purity purity, Values values) {
  Case c;
  const Shape shape = form.fold_is_outer ? joined(form.fold, form.outputs) : joined(form.outputs, form.fold);
  int x = c.add(Input{DType::kF32, shape, values, 0, 0, ""});
  const int center = form.expression == 1 ? c.add(Input{DType::kF32, form.outputs, values, 0, 0, ""}) : -1;
  const int factor =
      form.expression == 2 ? c.add(Input{DType::kI64, form.fold, Values::kOrdinary, -5, 6, ""}) : -1;
  if (purity == Purity::kPoisoned) x = c.poison(x);
  const std::string i = indices('i', form.outputs.size()), k = indices('k', form.fold.size());
  Line line{
      form.kind, form.outputs, {fmt::format("{}[{}]", x, form.fold_is_outer ? both(k, i) : both(i, k))}};
  if (form.expression == 1) {
    line.x.push_back(fmt::format("{}[{}]", center, i));
    line.steps = {"sub x0 x1", "mul t0 t0"};
  }
  if (form.expression == 2) {
    line.x.push_back(fmt::format("{}[{}]", factor, k));
    line.steps = {"min x0 0x1p4", "exp t0", "f32 x1", "mul t1 t2"};
  }
  line.fold = form.fold;
  line.dtype = result_of(form.kind, DType::kF32);
  c.add(line);
  c.name = fmt::format("fold/{}/{}[{}]-[{}]/{}{}", name_of(form.kind), form.fold_is_outer ? "outer-" : "",
                       join(form.outputs), join(form.fold), form.expression, suffix(purity, values));
  return c;
}

std::vector<Case> fold_cases() {
  std::vector<Case> cases;
  for (const Kind kind : {Kind::kSum, Kind::kMax, Kind::kArgmax}) {
    for (const std::int64_t size : kSizes) {
      const std::int64_t rows = size > 2000 ? 3 : 33;
      cases.push_back(fold({kind, {rows}, {size}, false, 0}, Purity::kFinite, Values::kEdges));
      cases.push_back(fold({kind, {rows}, {size}, true, 0}, Purity::kFinite, Values::kOrdinary));
      cases.push_back(fold({kind, {rows}, {size}, false, 1}, Purity::kFinite, Values::kOrdinary));
    }
    cases.push_back(fold({kind, {}, {70001}, false, 0}, Purity::kFinite, Values::kOrdinary));
    cases.push_back(fold({kind, {5}, {33, 65}, false, 2}, Purity::kFinite, Values::kOrdinary));
    cases.push_back(fold({kind, {5, 7}, {33, 65}, true, 1}, Purity::kFinite, Values::kOrdinary));
    cases.push_back(fold({kind, {31}, {2049}, false, 0}, Purity::kPoisoned, Values::kOrdinary));
    cases.push_back(fold({kind, {257}, {33}, true, 0}, Purity::kPoisoned, Values::kOrdinary));
    cases.push_back(fold({kind, {257}, {33}, false, 2}, Purity::kPoisoned, Values::kOrdinary));
    for (const std::int64_t size : {5, 16, 33}) {
      for (const std::int64_t stride : {1, 2, 3})
        cases.push_back(windowed(kind, size, stride, Purity::kFinite));
    }
    cases.push_back(windowed(kind, 17, 2, Purity::kPoisoned));
    cases.push_back(of_integers(kind, DType::kI64, {9}, 257));
    cases.push_back(of_integers(kind, DType::kU8, {9}, 2049));
    cases.push_back(of_integers(kind, DType::kI64, {}, 4097));
    if (kind != Kind::kArgmax) {
      cases.push_back(of_integers(kind, DType::kI64, {257}, 3, DType::kU8));
      cases.push_back(of_integers(kind, DType::kU8, {33}, 5, DType::kU8));
    }
  }
  return cases;
}

namespace {

/// The gradient of an embedding: rows of g are added where their keys say.
Case keyed(std::int64_t keys, std::int64_t rows, std::int64_t columns, bool base, DType key) {
  Case c;
  const int g = c.add(Input{DType::kF32, {rows, columns}, Values::kOrdinary, 0, 0, ""});
  const int at = c.add(Input{key, {rows}, Values::kOrdinary, key == DType::kU8 ? 0 : -2, keys + 1, ""});
  const int start = base ? c.add(Input{DType::kF32, {keys, columns}, Values::kOrdinary, 0, 0, ""}) : -1;
  Line line{Kind::kChain,
            {keys, columns},
            {fmt::format("{}[k0,i1]", g), fmt::format("{}[k0]", at)},
            {"add acc x0"},
            {rows}};
  line.when = {"eq x1 i0"};
  line.init = "0x0p0";
  if (base) {
    line.x.push_back(fmt::format("{}[i0,i1]", start));
    line.init = "x2";
  }
  c.add(line);
  c.name = fmt::format("chain/keyed/{}{}/{}-of-{}x{}", base ? "base-" : "", dgx::name_of(key), keys, rows,
                       columns);
  return c;
}

/// A keyed chain over rows × columns positions whose keys lie in another order than the positions.
Case keyed_across(std::int64_t keys, std::int64_t rows, std::int64_t columns, std::int64_t width) {
  Case c;
  const int g = c.add(Input{DType::kF32, {rows, columns, width}, Values::kOrdinary, 0, 0, ""});
  const int at = c.add(Input{DType::kI64, {columns, rows}, Values::kOrdinary, -2, keys + 1, ""});
  Line line{Kind::kChain,
            {keys, width},
            {fmt::format("{}[k0,k1,i1]", g), fmt::format("{}[k1,k0]", at)},
            {"add acc x0"},
            {rows, columns}};
  line.when = {"eq x1 i0"};
  line.init = "0x0p0";
  c.add(line);
  c.name = fmt::format("chain/keyed/across/{}-of-{}x{}x{}", keys, rows, columns, width);
  return c;
}

Case running(std::int64_t rows, std::int64_t size) {
  Case c;
  const int x = c.add(Input{DType::kF32, {rows, size}, Values::kOrdinary, 0, 0, ""});
  Line line{Kind::kChain, {rows, size}, {fmt::format("{}[i0,k0]", x)}, {"add acc x0"}, {size}};
  line.when = {"le k0 i1"};
  line.init = "0x0p0";
  c.add(line);
  c.name = fmt::format("chain/running/{}x{}", rows, size);
  return c;
}

Case unconditional(std::int64_t rows, std::int64_t size, Purity purity) {
  Case c;
  int x = c.add(Input{DType::kF32, {rows, size}, Values::kOrdinary, 0, 0, ""});
  if (purity == Purity::kPoisoned) x = c.poison(x);
  Line line{Kind::kChain,
            {rows},
            {fmt::format("{}[i0,k0]", x)},
            {"mul acc 0x1.cp-1", "max x0 t0", "fma x0 0x1p-3 t1"},
            {size}};
  line.init = "-0x0p0";
  c.add(line);
  c.name = fmt::format("chain/every/{}x{}{}", rows, size, suffix(purity, Values::kOrdinary));
  return c;
}

/// A hash of the numbers of the rows whose key matches, in order, under one more condition on the row number.
Case of_integers(std::int64_t keys, std::int64_t rows, DType result) {
  Case c;
  const int at = c.add(Input{DType::kI64, {rows}, Values::kOrdinary, 0, keys, ""});
  Line line{Kind::kChain, {keys}, {fmt::format("{}[k0]", at)}, {"mul acc 1000003", "add t0 k0"}, {rows}};
  line.dtype = result;
  line.when = {"imod k0 3", "eq x0 i0", "and t0 t1"};
  line.init = "7";
  c.add(line);
  c.name = fmt::format("chain/integers-{}/{}-of-{}", dgx::name_of(result), keys, rows);
  return c;
}

}  // namespace

std::vector<Case> chain_cases() {
  std::vector<Case> cases;
  for (const bool base : {false, true}) {
    cases.push_back(keyed(33, 257, 9, base, DType::kI64));
    cases.push_back(keyed(5, 65, 33, base, DType::kU8));
    cases.push_back(keyed(1, 31, 1, base, DType::kI64));
    cases.push_back(keyed(7, 65, 64, base, DType::kI64));  // 32 neighbours share a key
  }
  for (const std::int64_t width : {9, 32}) cases.push_back(keyed_across(7, 5, 13, width));
  for (const std::int64_t size : {1, 31, 33, 257}) cases.push_back(running(5, size));
  for (const std::int64_t size : {1, 33, 2049}) cases.push_back(unconditional(17, size, Purity::kFinite));
  cases.push_back(unconditional(17, 65, Purity::kPoisoned));
  for (const DType result : {DType::kI64, DType::kU8}) cases.push_back(of_integers(31, 257, result));
  return cases;
}

}  // namespace dgx::matrix
