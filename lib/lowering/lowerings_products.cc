#include <algorithm>
#include <array>

#include "pointwise.h"

namespace dgx::lowering {

using kernels::Coordinate;

namespace {

/// True for the literal 0, such as a first hidden state: nothing needs to be multiplied.
bool is_zero(const TensorForm& form) { return form.splat && std::get<float>(*form.splat) == 0; }

/// Makes a literal a value, so that the dot is a matrix product like others.
TensorForm materialised_splat(Call& call, const TensorForm& form) {
  return form.splat ? materialise(call.builder(), call.provenance(), form) : form;
}

/// A dot with access 0 for the rows and access 1 for the columns (dgx-lowerings(7), "Lowering guarantees").
TensorForm dot(Call& call, const Shape& shape, const Shape& terms, const TensorForm& rows,
               const std::vector<Coordinate>& row_indices, const TensorForm& columns,
               const std::vector<Coordinate>& column_indices) {
  if (is_zero(rows) || is_zero(columns)) return splat_form(DType::kF32, shape, 0.0F);
  kernels::Primitive primitive;
  primitive.kind = kernels::Kind::kDot;
  primitive.shape = shape;
  primitive.fold = terms;
  primitive.provenance = call.provenance();
  primitive.accesses = {access_at(materialised_splat(call, rows), row_indices),
                        access_at(materialised_splat(call, columns), column_indices)};
  return value_form(call.builder().append(std::move(primitive)), DType::kF32, shape);
}

bool is_real(Call& call, const TensorForm& a, const TensorForm& b) {
  return call.require(a.dtype == DType::kF32 && b.dtype == DType::kF32, "a product that is not f32");
}

TensorForm matrix_product(Call& call, const TensorForm& a, const TensorForm& b) {
  const bool fits = a.shape.size() == 2 && b.shape.size() == 2 && a.shape[1] == b.shape[0];
  if (!is_real(call, a, b) || !call.require(fits, "matrices that do not fit"))
    return splat_form(DType::kF32, {}, 0.0F);
  return dot(call, {a.shape[0], b.shape[1]}, {a.shape[1]}, a, {output_index(0), fold_index(0)}, b,
             {fold_index(0), output_index(1)});
}

bool are_batches(Call& call, const TensorForm& a, const TensorForm& b) {
  const bool fits =
      a.shape.size() == 3 && b.shape.size() == 3 && a.shape[0] == b.shape[0] && a.shape[2] == b.shape[1];
  return is_real(call, a, b) && call.require(fits, "matrices that do not fit");
}

TensorForm batched_product(Call& call, const TensorForm& a, const TensorForm& b) {
  if (!are_batches(call, a, b)) return splat_form(DType::kF32, {}, 0.0F);
  return dot(call, {a.shape[0], a.shape[1], b.shape[2]}, {a.shape[2]}, a,
             {output_index(0), output_index(1), fold_index(0)}, b,
             {output_index(0), fold_index(0), output_index(2)});
}

/// beta · bias + alpha · product; the common case is one addition.
void add_bias(Call& call, const TensorForm& product, const TensorForm& bias, double beta, double alpha) {
  if (!call.ok()) return;
  Pointwise map(call);
  if (is_zero(product) && beta == 1) return map.out(map.read(bias, "bias"));
  const Expression x = map.read(product, "product");
  if (beta == 0) return map.out(alpha == 1 ? x : x * static_cast<float>(alpha));
  const Expression b = map.read(bias, "bias");
  const Expression scaled = beta == 1 ? b : b * static_cast<float>(beta);
  map.out(alpha == 1 ? x + scaled : fma(x, static_cast<float>(alpha), scaled));
}

void mm(Call& call) {
  const TensorForm product = matrix_product(call, call.tensor("self"), call.tensor("mat2"));
  call.give(product);
}

void bmm(Call& call) { call.give(batched_product(call, call.tensor("self"), call.tensor("mat2"))); }

void baddbmm(Call& call) {
  const TensorForm product = batched_product(call, call.tensor("batch1"), call.tensor("batch2"));
  add_bias(call, product, call.tensor("self"), call.number("beta", 1), call.number("alpha", 1));
}

/// A sum of a batch of products, as one dot over batch and inner dimension.
void addbmm(Call& call) {
  const TensorForm a = call.tensor("batch1"), b = call.tensor("batch2");
  if (!are_batches(call, a, b)) return;
  const TensorForm product = dot(call, {a.shape[1], b.shape[2]}, {a.shape[0], a.shape[2]}, a,
                                 {fold_index(0), output_index(0), fold_index(1)}, b,
                                 {fold_index(0), fold_index(1), output_index(1)});
  add_bias(call, product, call.tensor("self"), call.number("beta", 1), call.number("alpha", 1));
}

void mv(Call& call) {
  const TensorForm a = call.tensor("self"), b = call.tensor("vec");
  const bool fits = a.shape.size() == 2 && b.shape.size() == 1 && a.shape[1] == b.shape[0];
  if (!is_real(call, a, b) || !call.require(fits, "shapes that do not fit")) return;
  call.give(dot(call, {a.shape[0]}, {a.shape[1]}, a, {output_index(0), fold_index(0)}, b, {fold_index(0)}));
}

void addmv(Call& call) {
  const TensorForm a = call.tensor("mat"), b = call.tensor("vec");
  const bool fits = a.shape.size() == 2 && b.shape.size() == 1 && a.shape[1] == b.shape[0];
  if (!is_real(call, a, b) || !call.require(fits, "shapes that do not fit")) return;
  const TensorForm product =
      dot(call, {a.shape[0]}, {a.shape[1]}, a, {output_index(0), fold_index(0)}, b, {fold_index(0)});
  add_bias(call, product, call.tensor("self"), call.number("beta", 1), call.number("alpha", 1));
}

void inner_product(Call& call) {
  const TensorForm a = call.tensor("self"), b = call.tensor(call.has("tensor") ? "tensor" : "other");
  if (!is_real(call, a, b) ||
      !call.require(a.shape.size() == 1 && a.shape == b.shape, "shapes that do not fit"))
    return;
  call.give(dot(call, {}, {a.shape[0]}, a, {fold_index(0)}, b, {fold_index(0)}));
}

/// beta · self + alpha · (vec1 vec2ᵀ).
void addr(Call& call) {
  const TensorForm a = call.tensor("vec1"), b = call.tensor("vec2");
  if (!is_real(call, a, b) ||
      !call.require(a.shape.size() == 1 && b.shape.size() == 1, "shapes that do not fit"))
    return;
  LineWriter line(call.builder(), call.provenance(), {a.shape[0], b.shape[0]});
  const Expression product = line.read(a, {output_index(0)}) * line.read(b, {output_index(1)});
  add_bias(call, line.finish(DType::kF32, product), call.tensor("self"), call.number("beta", 1),
           call.number("alpha", 1));
}

/// The op behind nn.Bilinear: the product of three tensors, each given dimensions of 1 where it has none,
/// summed.
void trilinear(Call& call) {
  const auto expanded = [&](const char* name, const char* dimensions) {
    TensorForm form = call.tensor(name);
    Shape shape = form.shape;
    auto places = call.integers(dimensions);
    std::sort(places.begin(), places.end());
    for (const std::int64_t place : places) {
      if (!call.require(place >= 0 && place <= static_cast<std::int64_t>(shape.size()),
                        "a dimension outside"))
        return form;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    }
    return reshaped(call.builder(), call.provenance(), without_splat(call.builder(), form), shape);
  };
  const std::array<TensorForm, 3> factors = {expanded("i1", "expand1"), expanded("i2", "expand2"),
                                             expanded("i3", "expand3")};
  if (!call.ok()) return;
  Shape shape(factors[0].shape.size(), 1);
  for (const TensorForm& factor : factors) {
    if (!call.require(factor.shape.size() == shape.size(), "factors of other ranks")) return;
    for (std::size_t n = 0; n < shape.size(); ++n) shape[n] = std::max(shape[n], factor.shape[n]);
  }
  const Reduction over = reduction_over(shape, call.dimensions("sumdim", shape.size()));
  const bool sums = !call.integers("sumdim").empty() && !over.fold.empty();
  LineWriter line =
      sums ? LineWriter(call.builder(), call.provenance(), kernels::Kind::kSum, over.shape, over.fold)
           : LineWriter(call.builder(), call.provenance(), shape);
  const auto indices = sums ? over.indices : output_indices(shape.size());
  const auto read = [&](std::size_t n) { return line.read(broadcast_to(factors[n], shape), indices); };
  const TensorForm result = line.finish(DType::kF32, (read(0) * read(1)) * read(2));
  call.give(sums ? over.restored(result) : result);
}

void addmm(Call& call) {
  const TensorForm product = matrix_product(call, call.tensor("mat1"), call.tensor("mat2"));
  add_bias(call, product, call.tensor("self"), call.number("beta", 1), call.number("alpha", 1));
}

/// input [… , k] · weight [n, k] transposed, plus bias.
void linear(Call& call) {
  const TensorForm input = call.tensor("input"), weight = call.tensor("weight");
  const std::size_t rank = input.shape.size();
  const bool fits = rank >= 1 && weight.shape.size() == 2 && input.shape.back() == weight.shape[1];
  if (!is_real(call, input, weight) || !call.require(fits, "shapes that do not fit")) return;
  Shape shape = input.shape;
  shape.back() = weight.shape[0];
  auto rows = output_indices(rank);
  rows.back() = fold_index(0);
  const TensorForm product =
      dot(call, shape, {weight.shape[1]}, input, rows, weight, {output_index(rank - 1), fold_index(0)});
  if (!call.given("bias")) return call.give(product);
  add_bias(call, product, call.tensor("bias"), 1, 1);
}

/// Matrix products.
constexpr LoweringRow kRows[] = {
    {"mm", &mm},
    {"bmm", &bmm},
    {"baddbmm", &baddbmm},
    {"addbmm", &addbmm},
    {"mv", &mv},
    {"addmv", &addmv},
    {"dot vdot", &inner_product},
    {"addr", &addr},
    {"_trilinear", &trilinear},
    {"addmm", &addmm},
    {"linear", &linear},
};

}  // namespace

const std::span<const LoweringRow> kProductRows = kRows;

}  // namespace dgx::lowering
