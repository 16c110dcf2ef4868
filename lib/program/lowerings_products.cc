#include "lowerings.h"
#include "pointwise.h"

namespace dgx::program::lowerings {

using kernels::Coordinate;

namespace {

/// A dot with access 0 for the rows and access 1 for the columns (dgx-program(5), "Lowering guarantees").
TensorForm dot(Call& call, const Shape& shape, std::int64_t terms, const TensorForm& rows,
               const std::vector<Coordinate>& row_indices, const TensorForm& columns,
               const std::vector<Coordinate>& column_indices) {
  kernels::Primitive primitive;
  primitive.kind = kernels::Kind::kDot;
  primitive.shape = shape;
  primitive.fold = {terms};
  primitive.provenance = call.provenance();
  primitive.accesses = {access_at(without_splat(call.builder(), rows), row_indices),
                        access_at(without_splat(call.builder(), columns), column_indices)};
  return value_form(call.builder().append(std::move(primitive)), DType::kF32, shape);
}

bool is_real(Call& call, const TensorForm& a, const TensorForm& b) {
  return call.require(a.dtype == DType::kF32 && b.dtype == DType::kF32, "a product that is not of f32");
}

TensorForm matrix_product(Call& call, const TensorForm& a, const TensorForm& b) {
  const bool fits = a.shape.size() == 2 && b.shape.size() == 2 && a.shape[1] == b.shape[0];
  if (!is_real(call, a, b) || !call.require(fits, "matrices that do not fit"))
    return splat_form(DType::kF32, {}, 0.0F);
  return dot(call, {a.shape[0], b.shape[1]}, a.shape[1], a, {output_index(0), fold_index(0)}, b,
             {fold_index(0), output_index(1)});
}

/// beta · bias + alpha · product; the common case is one addition.
void add_bias(Call& call, const TensorForm& product, const TensorForm& bias, double beta, double alpha) {
  if (!call.ok()) return;
  Pointwise map(call);
  const Expression x = map.read(product, "product");
  if (beta == 0) return map.out(alpha == 1 ? x : x * static_cast<float>(alpha));
  const Expression b = map.read(bias, "bias");
  const Expression scaled = beta == 1 ? b : b * static_cast<float>(beta);
  map.out(alpha == 1 ? x + scaled : fma(x, static_cast<float>(alpha), scaled));
}

}  // namespace

void mm(Call& call) {
  const TensorForm product = matrix_product(call, call.tensor("self"), call.tensor("mat2"));
  call.give(product);
}

void bmm(Call& call) {
  const TensorForm a = call.tensor("self"), b = call.tensor("mat2");
  const bool fits =
      a.shape.size() == 3 && b.shape.size() == 3 && a.shape[0] == b.shape[0] && a.shape[2] == b.shape[1];
  if (!is_real(call, a, b) || !call.require(fits, "matrices that do not fit")) return;
  call.give(dot(call, {a.shape[0], a.shape[1], b.shape[2]}, a.shape[2], a,
                {output_index(0), output_index(1), fold_index(0)}, b,
                {output_index(0), fold_index(0), output_index(2)}));
}

void mv(Call& call) {
  const TensorForm a = call.tensor("self"), b = call.tensor("vec");
  const bool fits = a.shape.size() == 2 && b.shape.size() == 1 && a.shape[1] == b.shape[0];
  if (!is_real(call, a, b) || !call.require(fits, "shapes that do not fit")) return;
  call.give(dot(call, {a.shape[0]}, a.shape[1], a, {output_index(0), fold_index(0)}, b, {fold_index(0)}));
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
      dot(call, shape, weight.shape[1], input, rows, weight, {output_index(rank - 1), fold_index(0)});
  if (!call.given("bias")) return call.give(product);
  add_bias(call, product, call.tensor("bias"), 1, 1);
}

}  // namespace dgx::program::lowerings
