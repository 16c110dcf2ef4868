#include <fmt/format.h>

#include "families.h"
#include "form_text.h"

namespace dgx::matrix {

using kernels::Kind;

namespace {

const char* suffix(Purity purity, Values values) {
  if (purity == Purity::kPoisoned) return "-poisoned";
  return values == Values::kEdges ? "-edges" : "";
}

Input floats(Shape shape, Values values) { return {DType::kF32, std::move(shape), values, 0, 0, ""}; }

std::string side(int value, bool batched, const std::string& row, bool transposed) {
  return fmt::format("{}[{}{}]", value, batched ? "i0," : "", transposed ? "k0," + row : row + ",k0");
}

Shape matrix(std::int64_t batch, std::int64_t a, std::int64_t b) {
  return batch == 1 ? Shape{a, b} : Shape{batch, a, b};
}

}  // namespace

Case product(const ProductForm& form, Purity purity, Values values) {
  Case c;
  const bool batched = form.batch > 1;
  const std::int64_t left_rows = (form.rows - 1) * form.left_stride + 1;
  int a = c.add(floats(form.left_transposed ? matrix(form.batch, form.depth, left_rows)
                                            : matrix(form.batch, left_rows, form.depth),
                       values));
  int b = c.add(floats(form.right_transposed ? matrix(form.batch, form.columns, form.depth)
                                             : matrix(form.batch, form.depth, form.columns),
                       values));
  const int bias = form.bias ? c.add(floats({form.columns}, values)) : -1;
  if (purity == Purity::kPoisoned) {
    a = c.poison(a);
    b = c.poison(b);
  }
  const std::string row = fmt::format(
      "{}i{}", form.left_stride == 1 ? "" : fmt::format("{}*", form.left_stride), batched ? 1 : 0);
  const std::string column = fmt::format("i{}", batched ? 2 : 1);
  Line line{Kind::kDot,
            matrix(form.batch, form.rows, form.columns),
            {side(a, batched, row, form.left_transposed), side(b, batched, column, !form.right_transposed)},
            {},
            {form.depth}};
  const int dot = c.add(line);
  if (form.bias) {
    const std::string all = batched ? "i0,i1,i2" : "i0,i1";
    c.add(Line{Kind::kMap,
               line.shape,
               {fmt::format("{}[{}]", dot, all), fmt::format("{}[{}]", bias, column)},
               {"add x0 x1", "max 0x0p0 t0"}});
  }
  c.name = fmt::format("product/{}{}x{}x{}/{}{}{}{}{}", batched ? fmt::format("{}x", form.batch) : "",
                       form.rows, form.columns, form.depth, form.left_transposed ? "t" : "n",
                       form.right_transposed ? "t" : "n",
                       form.left_stride == 1 ? "" : fmt::format("-every-{}", form.left_stride),
                       form.bias ? "-bias" : "", suffix(purity, values));
  return c;
}

namespace {

/// A dot with the constant one: sums over the outer `fold` dimensions.
Case with_one(const Shape& fold, std::int64_t columns, bool one_first, Purity purity) {
  Case c;
  Shape shape = fold;
  shape.push_back(columns);
  int x = c.add(floats(shape, Values::kOrdinary));
  const int one = c.add(Input{DType::kF32, {1}, Values::kOrdinary, 0, 0, "0x1p0"});
  if (purity == Purity::kPoisoned) x = c.poison(x);
  std::string k;
  for (std::size_t d = 0; d < fold.size(); ++d) k += fmt::format("k{},", d);
  std::vector<std::string> sides = {fmt::format("{}[0]", one), fmt::format("{}[{}i0]", x, k)};
  if (!one_first) std::swap(sides[0], sides[1]);
  c.add(Line{Kind::kDot, {columns}, sides, {}, fold});
  c.name = fmt::format("product/one/[{}]-{}{}{}", join(fold), columns, one_first ? "" : "-right",
                       suffix(purity, Values::kOrdinary));
  return c;
}

/// Rows of a table, chosen by an index, times a matrix.
Case gathered(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  Case c;
  const int table = c.add(floats({19, depth}, Values::kOrdinary));
  const int b = c.add(floats({columns, depth}, Values::kOrdinary));
  const int at = c.add(Input{DType::kI64, {rows}, Values::kOrdinary, -1, 20, ""});
  c.add(Line{Kind::kDot,
             {rows, columns},
             {fmt::format("{}[$2,k0]?0x0p0", table), fmt::format("{}[i1,k0]", b), fmt::format("{}[i0]", at)},
             {},
             {depth}});
  c.name = fmt::format("product/gathered/{}x{}x{}", rows, columns, depth);
  return c;
}

/// w − lr · xᵀg: an update that replaces w, and the product that only this update reads.
Case update(std::int64_t in, std::int64_t out, std::int64_t batch, bool also_used) {
  Case c;
  const int w = c.add(floats({out, in}, Values::kOrdinary));
  const int x = c.add(floats({batch, in}, Values::kOrdinary));
  int g = c.add(floats({batch, out}, Values::kOrdinary));
  if (also_used) {
    const int y = c.add(
        Line{Kind::kDot, {batch, out}, {fmt::format("{}[i0,k0]", x), fmt::format("{}[i1,k0]", w)}, {}, {in}});
    g = c.add(Line{Kind::kMap,
                   {batch, out},
                   {fmt::format("{}[i0,i1]", y), fmt::format("{}[i0,i1]", g)},
                   {"gt x0 0x0p0", "select t0 x1 0x0p0"}});
  }
  const int dw = c.add(
      Line{Kind::kDot, {out, in}, {fmt::format("{}[k0,i0]", g), fmt::format("{}[k0,i1]", x)}, {}, {batch}});
  c.add(Line{Kind::kMap,
             {out, in},
             {fmt::format("{}[i0,i1]", dw), fmt::format("{}[i0,i1]", w)},
             {"fma x0 -0x1p-7 x1"}});
  c.name = fmt::format("product/update/{}x{}x{}{}", in, out, batch, also_used ? "-used" : "");
  return c;
}

void add_dots(std::vector<Case>& cases) {
  struct Dot {
    const char* name;
    Shape a, b, out, fold;
    std::string x0, x1;
  };
  const std::vector<Dot> dots = {
      {"vectors", {4097}, {4097}, {}, {4097}, "0[k0]", "1[k0]"},
      {"outer", {33}, {65}, {33, 65}, {}, "0[i0]", "1[i1]"},
      {"matrix-vector", {33, 257}, {257}, {33}, {257}, "0[i0,k0]", "1[k0]"},
      {"vector-matrix", {257}, {257, 33}, {33}, {257}, "0[k0]", "1[k0,i0]"},
      {"two-folds", {9, 5, 33}, {17, 5, 33}, {9, 17}, {5, 33}, "0[i0,k0,k1]", "1[i1,k0,k1]"},
      {"folds-apart", {5, 9, 33}, {5, 17, 33}, {9, 17}, {5, 33}, "0[k0,i0,k1]", "1[k0,i1,k1]"},
      {"heads", {3, 17, 4, 8}, {3, 17, 4, 8}, {3, 4, 17, 17}, {8}, "0[i0,i2,i1,k0]", "1[i0,i3,i1,k0]"},
      {"values-of-heads",
       {3, 4, 17, 17},
       {3, 17, 4, 8},
       {3, 17, 4, 8},
       {17},
       "0[i0,i2,i1,k0]",
       "1[i0,k0,i2,i3]"},
      {"reversed", {33, 65}, {65, 31}, {33, 31}, {65}, "0[32-i0,64-k0]", "1[k0,i1]"},
      {"every-second-term", {33, 129}, {65, 31}, {33, 31}, {65}, "0[i0,2*k0]", "1[k0,i1]"},
      {"views", {33, 8}, {4, 66}, {11, 3, 11}, {8}, "0@11.3.8[i0,i1,k0]", "1@8.33[k0,3*i2]"},
      {"broadcast-batch", {5, 9, 33}, {33, 17}, {5, 9, 17}, {33}, "0[i0,i1,k0]", "1[k0,i2]"},
      {"shared-index", {9, 257}, {9, 257}, {9}, {257}, "0[i0,k0]", "1[i0,k0]"},
      {"triangle", {17, 17}, {17, 9}, {17, 9}, {17}, "0[i0,k0]", "1[16-k0,i1]"},
      {"diagonal", {17, 17}, {17, 9}, {9}, {17}, "0[k0,k0]", "1[k0,i0]"},
      {"padded-rows", {9, 33}, {33, 17}, {13, 17}, {33}, "0[i0-2,k0]?0x0p0", "1[k0,i1]"},
      {"floored", {9, 33}, {33, 17}, {27, 17}, {33}, "0[i0//3,k0]", "1[k0,i1]"},
      {"two-taps", {3, 33}, {65, 2}, {3, 65}, {2}, "0[i0,(i1+k0)//2]?0x0p0", "1[i1,k0]"},
  };
  for (const Dot& dot : dots) {
    for (const Values values : {Values::kOrdinary, Values::kEdges}) {
      Case c;
      c.add(floats(dot.a, values));
      c.add(floats(dot.b, values));
      c.add(Line{Kind::kDot, dot.out, {dot.x0, dot.x1}, {}, dot.fold});
      c.name = fmt::format("product/{}{}", dot.name, suffix(Purity::kFinite, values));
      cases.push_back(std::move(c));
    }
  }
}

}  // namespace

std::vector<Case> product_cases() {
  std::vector<Case> cases;
  for (const std::int64_t depth : kSizes) {
    const std::int64_t rows = depth > 2000 ? 3 : 17, columns = depth > 2000 ? 17 : 33;
    cases.push_back(
        product({1, rows, columns, depth, false, false, 1, false}, Purity::kFinite, Values::kOrdinary));
    cases.push_back(
        product({1, rows, columns, depth, false, true, 1, true}, Purity::kFinite, Values::kEdges));
    cases.push_back(
        product({1, rows, columns, depth, true, false, 1, true}, Purity::kFinite, Values::kOrdinary));
  }
  for (const std::int64_t columns : {1, 15, 16, 17, 31, 33, 63, 65, 257}) {
    for (const std::int64_t rows : {1, 5, 13, 33}) {
      cases.push_back(product({1, rows, columns, 40, rows % 2 == 0, columns % 2 == 0, 1, columns > 31},
                              Purity::kFinite, Values::kOrdinary));
    }
  }
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      cases.push_back(product({5, 9, 17, 33, left, right, 1, false}, Purity::kFinite, Values::kEdges));
      cases.push_back(product({3, 33, 31, 8, left, right, 1, true}, Purity::kFinite, Values::kOrdinary));
      cases.push_back(product({1, 17, 33, 65, left, right, 2, false}, Purity::kFinite, Values::kOrdinary));
      cases.push_back(product({1, 33, 65, 257, left, right, 1, true}, Purity::kPoisoned, Values::kOrdinary));
    }
  }
  for (const std::int64_t columns : {1, 31, 33, 257}) {
    cases.push_back(with_one({2049}, columns, true, Purity::kFinite));
    cases.push_back(with_one({9, 33}, columns, columns != 33, Purity::kFinite));
    cases.push_back(with_one({257}, columns, true, Purity::kPoisoned));
  }
  cases.push_back(gathered(33, 17, 65));
  for (const bool used : {false, true}) {
    cases.push_back(update(33, 17, 9, used));
    cases.push_back(update(64, 48, 33, used));
    cases.push_back(update(257, 16, 31, used));
  }
  add_dots(cases);
  return cases;
}

namespace {

std::string describe(const test::Convolution& v) {
  return fmt::format("{}x{}to{}-{}x{}-k{}x{}-s{}-d{}-p{}-g{}{}", v.images, v.in, v.out, v.height, v.width,
                     v.kernel_h, v.kernel_w, v.stride, v.dilation, v.padding, v.groups,
                     v.channels_last ? "-last" : "");
}

/// `line` with its operands 0 and 1 renumbered to `a` and `b`.
std::string reading(std::string line, int a, int b) {
  for (std::size_t at = line.find("\"x\":[") + 5; at < line.size(); ++at) {
    if (line[at] != '"' || (line[at + 2] != '[' && line[at + 2] != '@')) continue;
    const std::string other = std::to_string(line[at + 1] == '0' ? a : b);
    line.replace(at + 1, 1, other);
    at += other.size();
  }
  return line;
}

void add_convolution(std::vector<Case>& cases, const test::Convolution& v, Purity purity, Values values) {
  const struct {
    const char* name;
    test::FormInput a, b;
    std::string line;
  } forms[] = {{"forward", v.x(), v.w(), v.forward()},
               {"input-gradient", v.dy(), v.w(), v.input_gradient()},
               {"weight-gradient", v.x(), v.dy(), v.weight_gradient()}};
  for (const auto& form : forms) {
    Case c;
    int a = c.add(floats(form.a.shape, values));
    int b = c.add(floats(form.b.shape, values));
    if (purity == Purity::kPoisoned) {
      a = c.poison(a);
      b = c.poison(b);
    }
    c.add_text(reading(form.line, a, b));
    c.name = fmt::format("window/{}/{}{}", form.name, describe(v), suffix(purity, values));
    cases.push_back(std::move(c));
  }
}

test::Convolution drawn(Random& random) {
  test::Convolution v;
  v.groups = random.pick(std::vector<std::int64_t>{1, 1, 1, 2, 3});
  v.channels_last = random.one_in(2);
  v.in = v.groups * random.pick(std::vector<std::int64_t>{1, 2, 5, 16});
  v.out = v.groups * random.pick(std::vector<std::int64_t>{1, 3, 8, 16, 17});
  v.images = 1 + random.below(3);
  v.kernel_h = 1 + random.below(5);
  v.kernel_w = 1 + random.below(5);
  v.stride = 1 + random.below(3);
  v.dilation = 1 + random.below(3);
  v.padding = random.below(4);
  v.height = v.dilation * (v.kernel_h - 1) + 1 + random.below(16);
  v.width = v.dilation * (v.kernel_w - 1) + 1 + random.below(20);
  return v;
}

}  // namespace

std::vector<Case> window_cases() {
  std::vector<Case> cases;
  const auto add = [&](const test::Convolution& v) {
    add_convolution(cases, v, Purity::kFinite, Values::kOrdinary);
  };
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t dilation : {1, 2}) {
      for (const std::int64_t padding : {0, 1, 3}) {
        add({2, 3, 5, 9, 8, 3, 3, stride, dilation, padding, 1});
      }
    }
  }
  for (const std::int64_t channels : {1, 16, 31, 33}) add({1, channels, 17, 7, 7, 3, 3, 1, 1, 1, 1});
  for (const std::int64_t groups : {2, 6}) add({2, 6, 12, 9, 9, 3, 3, 2, 1, 1, groups});
  add({2, 33, 33, 8, 9, 3, 3, 1, 1, 1, 33});  // depthwise
  add({2, 29, 2, 4, 4, 3, 3, 1, 1, 1, 1});    // 261 terms
  add({17, 2, 3, 16, 16, 3, 3, 1, 1, 1, 1});  // 4,352 terms of the weight gradient
  add({2, 5, 7, 1, 257, 1, 5, 1, 1, 2, 1});   // one dimension
  add({2, 5, 7, 257, 1, 3, 1, 2, 1, 1, 1});
  add({2, 8, 9, 13, 11, 1, 1, 1, 1, 0, 1});  // a matrix product in disguise
  add({2, 8, 9, 13, 11, 1, 1, 2, 1, 0, 1});
  add({1, 3, 4, 31, 33, 5, 2, 1, 1, 2, 1});
  for (const std::int64_t stride : {1, 2}) {
    add_convolution(cases, {2, 4, 18, 9, 10, 3, 3, stride, 1, 1, 1}, Purity::kFinite, Values::kEdges);
    add_convolution(cases, {2, 4, 18, 9, 10, 3, 3, stride, 1, 1, 1}, Purity::kPoisoned, Values::kOrdinary);
    add_convolution(cases, {2, 4, 6, 9, 10, 3, 3, stride, 1, 1, 2}, Purity::kPoisoned, Values::kOrdinary);
  }
  return cases;
}

Case random_window(Random& random) {
  std::vector<Case> cases;
  const auto purity = random.one_in(4) ? Purity::kPoisoned : Purity::kFinite;
  const auto values = purity == Purity::kFinite && random.one_in(2) ? Values::kEdges : Values::kOrdinary;
  add_convolution(cases, drawn(random), purity, values);
  return cases[static_cast<std::size_t>(random.below(3))];
}

}  // namespace dgx::matrix
