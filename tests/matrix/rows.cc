#include <fmt/format.h>

#include "dgx/program/check.h"
#include "families.h"

namespace dgx::matrix {

using kernels::Kind;

namespace {

Input floats(Shape shape, Values values = Values::kOrdinary) {
  return {DType::kF32, std::move(shape), values, 0, 0, ""};
}

std::string all(int value) { return fmt::format("{}[i0,i1]", value); }
std::string row(int value) { return fmt::format("{}[i0]", value); }
std::string rows(int value) { return fmt::format("{}[i0,k0]", value); }

const char* suffix(Purity purity) { return purity == Purity::kPoisoned ? "-poisoned" : ""; }

Case softmax(std::int64_t n, std::int64_t size, bool causal, Purity purity) {
  Case c;
  int x = c.add(floats({n, size}));
  const int g = c.add(floats({n, size}));
  if (purity == Purity::kPoisoned) x = c.poison(x);
  if (causal) x = c.add(Line{Kind::kMap, {n, size}, {all(x)}, {"le i1 i0", "select t0 x0 -inf"}});
  const int most = c.add(Line{Kind::kMax, {n}, {rows(x)}, {}, {size}});
  const int e = c.add(Line{Kind::kMap, {n, size}, {all(x), row(most)}, {"sub x0 x1", "exp t0"}});
  const int total = c.add(Line{Kind::kSum, {n}, {rows(e)}, {}, {size}});
  const int inverse = c.add(Line{Kind::kMap, {n}, {row(total)}, {"div 0x1p0 x0"}});
  const int y = c.add(Line{Kind::kMap, {n, size}, {all(e), row(inverse)}, {"mul x0 x1"}});
  const int dot = c.add(Line{Kind::kSum, {n}, {rows(g), rows(y)}, {"mul x0 x1"}, {size}});
  c.add(Line{Kind::kMap, {n, size}, {all(g), row(dot), all(y)}, {"sub x0 x1", "mul t0 x2"}});
  c.name = fmt::format("rows/softmax{}/{}x{}{}", causal ? "-causal" : "", n, size, suffix(purity));
  return c;
}

Case layer_norm(std::int64_t n, std::int64_t size, Purity purity) {
  Case c;
  int x = c.add(floats({n, size}));
  const int gamma = c.add(floats({size}));
  const int beta = c.add(floats({size}));
  if (purity == Purity::kPoisoned) x = c.poison(x);
  const int total = c.add(Line{Kind::kSum, {n}, {rows(x)}, {}, {size}});
  const int mean = c.add(Line{Kind::kMap, {n}, {row(total)}, {fmt::format("f32 {}", size), "div x0 t0"}});
  const int squares = c.add(Line{Kind::kSum, {n}, {rows(x), row(mean)}, {"sub x0 x1", "mul t0 t0"}, {size}});
  const int deviation = c.add(
      Line{Kind::kMap,
           {n},
           {row(squares)},
           {fmt::format("f32 {}", size), "div x0 t0", "add t1 0x1.4f8b58p-17", "sqrt t2", "div 0x1p0 t3"}});
  c.add(Line{Kind::kMap,
             {n, size},
             {all(x), row(mean), row(deviation), fmt::format("{}[i1]", gamma), fmt::format("{}[i1]", beta)},
             {"sub x0 x1", "mul t0 x2", "fma t1 x3 x4"}});
  c.name = fmt::format("rows/layer-norm/{}x{}{}", n, size, suffix(purity));
  return c;
}

/// Batch statistics over images and positions: a sum over each image's plane, then a dot with one.
Case batch_norm(std::int64_t images, std::int64_t channels, std::int64_t side) {
  Case c;
  const int x = c.add(floats({images, channels, side, side}));
  const int one = c.add(Input{DType::kF32, {1}, Values::kOrdinary, 0, 0, "0x1p0"});
  const std::string count = fmt::format("f32 {}", images * side * side);
  const auto over_images = [&](int sums) {
    return c.add(Line{
        Kind::kDot, {channels}, {fmt::format("{}[0]", one), fmt::format("{}[k0,i0]", sums)}, {}, {images}});
  };
  const int planes =
      c.add(Line{Kind::kSum, {images, channels}, {fmt::format("{}[i0,i1,k0,k1]", x)}, {}, {side, side}});
  const int mean = c.add(Line{Kind::kMap, {channels}, {row(over_images(planes))}, {count, "div x0 t0"}});
  const int squares = c.add(Line{Kind::kSum,
                                 {images, channels},
                                 {fmt::format("{}[i0,i1,k0,k1]", x), fmt::format("{}[i1]", mean)},
                                 {"sub x0 x1", "mul t0 t0"},
                                 {side, side}});
  const int deviation = c.add(Line{Kind::kMap,
                                   {channels},
                                   {row(over_images(squares))},
                                   {count, "div x0 t0", "add t1 0x1.4f8b58p-17", "sqrt t2", "div 0x1p0 t3"}});
  c.add(
      Line{Kind::kMap,
           {images, channels, side, side},
           {fmt::format("{}[i0,i1,i2,i3]", x), fmt::format("{}[i1]", mean), fmt::format("{}[i1]", deviation)},
           {"sub x0 x1", "mul t0 x2", "max 0x0p0 t1"}});
  c.name = fmt::format("rows/batch-norm/{}x{}x{}", images, channels, side);
  return c;
}

Case adam(std::int64_t size, Values values) {
  Case c;
  const int w = c.add(floats({size}, values));
  const int g = c.add(floats({size}, values));
  const int m = c.add(floats({size}, values));
  const int v = c.add(floats({size}));
  const int m2 = c.add(Line{Kind::kMap, {size}, {row(m), row(g)}, {"sub x1 x0", "fma t0 0x1.99999ap-4 x0"}});
  const int v2 = c.add(Line{Kind::kMap,
                            {size},
                            {row(v), row(g)},
                            {"abs x0", "mul t0 0x1.ff7cep-1", "mul x1 0x1.0624dep-10", "fma t2 x1 t1"}});
  c.add(Line{Kind::kMap,
             {size},
             {row(w), row(m2), row(v2)},
             {"sqrt x2", "fma t0 0x1.8p0 0x1.5798eep-27", "div x1 t1", "fma t2 -0x1.0624dep-10 x0"}});
  c.name = fmt::format("rows/adam/{}{}", size, values == Values::kEdges ? "-edges" : "");
  return c;
}

/// Two gradients, scaled so that their norm together is at most 1.
Case clipped_norm(std::int64_t rows, std::int64_t columns) {
  Case c;
  const int weights = c.add(floats({rows, columns}));
  const int bias = c.add(floats({columns}));
  const std::string whole = fmt::format("{}[k0,k1]", weights), part = fmt::format("{}[k0]", bias);
  const int squares = c.add(Line{Kind::kSum, {}, {whole}, {"mul x0 x0"}, {rows, columns}});
  const int others = c.add(Line{Kind::kSum, {}, {part}, {"mul x0 x0"}, {columns}});
  const int scale =
      c.add(Line{Kind::kMap,
                 {},
                 {fmt::format("{}[]", squares), fmt::format("{}[]", others)},
                 {"add x0 x1", "sqrt t0", "add t1 0x1.0c6f7ap-20", "div 0x1p0 t2", "min t3 0x1p0"}});
  c.add(Line{Kind::kMap, {columns}, {row(bias), fmt::format("{}[]", scale)}, {"mul x0 x1"}});
  c.add(Line{Kind::kMap, {rows, columns}, {all(weights), fmt::format("{}[]", scale)}, {"mul x0 x1"}});
  c.name = fmt::format("rows/clipped-norm/{}x{}", rows, columns);
  return c;
}

/// softmax(q·kᵀ)·v by its definition, causal.
Case attention(std::int64_t heads, std::int64_t length, std::int64_t width) {
  Case c;
  const int q = c.add(floats({heads, length, width}));
  const int k = c.add(floats({heads, length, width}));
  const int v = c.add(floats({heads, length, width}));
  const Shape square = {heads, length, length};
  const auto one = [](int value) { return fmt::format("{}[i0,i1,i2]", value); };
  const auto along = [](int value) { return fmt::format("{}[i0,i1,k0]", value); };
  const auto of_row = [](int value) { return fmt::format("{}[i0,i1]", value); };
  const int scores = c.add(Line{Kind::kDot, square, {along(q), fmt::format("{}[i0,i2,k0]", k)}, {}, {width}});
  const int masked = c.add(
      Line{Kind::kMap, square, {one(scores)}, {"mul x0 0x1.6a09e6p-3", "le i2 i1", "select t1 t0 -inf"}});
  const int most = c.add(Line{Kind::kMax, {heads, length}, {along(masked)}, {}, {length}});
  const int e = c.add(Line{Kind::kMap, square, {one(masked), of_row(most)}, {"sub x0 x1", "exp t0"}});
  const int total = c.add(Line{Kind::kSum, {heads, length}, {along(e)}, {}, {length}});
  const int inverse = c.add(Line{Kind::kMap, {heads, length}, {of_row(total)}, {"div 0x1p0 x0"}});
  const int p = c.add(Line{Kind::kMap, square, {one(e), of_row(inverse)}, {"mul x0 x1"}});
  c.add(Line{Kind::kDot, {heads, length, width}, {along(p), fmt::format("{}[i0,k0,i2]", v)}, {}, {length}});
  c.name = fmt::format("rows/attention/{}x{}x{}", heads, length, width);
  return c;
}

}  // namespace

/// A value, and a map of its first part with fewer, larger elements in as many bytes, which must not
/// overwrite it.
Case retyped(DType from, DType to, std::int64_t size) {
  const auto ratio = static_cast<std::int64_t>(size_of(to) / size_of(from));
  std::vector<std::string> steps = {"max x0 4"};
  if (to == DType::kF32) steps.push_back("f32 t0");
  if (from == DType::kF32) steps = {"max x0 0x1p2", "trunc t0", "i64 t1"};
  Case c;
  const int x = c.add(Input{DType::kU8, {ratio, size}, Values::kOrdinary, 0, 256, ""});
  const int wide = c.add(
      Line{Kind::kMap, {ratio, size}, {all(x)}, {"max x0 3", fmt::format("{} t0", name_of(from))}, {}, from});
  const int large = c.add(Line{Kind::kMap, {1, size}, {fmt::format("{}[0,i1]", wide)}, steps, {}, to});
  c.add(Line{
      Kind::kMap, {2, size}, {fmt::format("{}[0,i1]", large)}, {to == DType::kF32 ? "mul x0 x0" : "f32 x0"}});
  c.name = fmt::format("rows/retyped/{}-{}-{}", name_of(from), name_of(to), size);
  return c;
}

std::vector<Case> group_cases() {
  std::vector<Case> cases;
  for (const std::int64_t size : kSizes) {
    const std::int64_t n = size > 2000 ? 2 : 9;
    cases.push_back(softmax(n, size, size % 2 == 1, Purity::kFinite));
    cases.push_back(layer_norm(n, size, Purity::kFinite));
    cases.push_back(adam(size, size % 2 == 1 ? Values::kEdges : Values::kOrdinary));
  }
  cases.push_back(softmax(33, 65, false, Purity::kPoisoned));
  cases.push_back(layer_norm(33, 65, Purity::kPoisoned));
  for (const std::int64_t side : {1, 6, 17}) cases.push_back(batch_norm(3, 5, side));
  cases.push_back(attention(3, 33, 8));
  cases.push_back(attention(1, 65, 31));
  Random random(4);
  while (cases.size() < 160) {
    Case c = random_group(random);
    const auto program = program_of(c, {false, true, false});
    if (!program.ok() || !program::check_program(**program).ok()) continue;
    c.name = fmt::format("groups/{}", cases.size());
    cases.push_back(std::move(c));
  }
  for (const std::int64_t size : {700, 2736}) {
    cases.push_back(retyped(DType::kF32, DType::kI64, size));
    cases.push_back(retyped(DType::kU8, DType::kI64, 8 * size));
    cases.push_back(retyped(DType::kU8, DType::kF32, 8 * size));
  }
  for (const std::int64_t rows : {3, 70}) cases.push_back(clipped_norm(rows, 65));
  return cases;
}

Case random_row_program(Random& random) {
  const std::int64_t size = random.one_in(2) ? random.pick(kSizes) : 1 + random.below(600);
  const std::int64_t n = 1 + random.below(std::max<std::int64_t>(1, 20000 / size));
  const bool causal = random.one_in(2);
  const Purity purity = random.one_in(3) ? Purity::kPoisoned : Purity::kFinite;
  // Braces: drawn in order.
  const Shape sizes = {1 + random.below(4), 1 + random.below(70), 1 + random.below(40)};
  switch (random.below(6)) {
    case 0: return softmax(n, size, causal, purity);
    case 1: return layer_norm(n, size, purity);
    case 2: return batch_norm(sizes[0], 1 + sizes[1] / 4, 1 + sizes[2] / 4);
    case 3: return attention(sizes[0], sizes[1], sizes[2]);
    default: return adam(sizes[1] * sizes[1], causal ? Values::kEdges : Values::kOrdinary);
  }
}

}  // namespace dgx::matrix
