#pragma once

#include <optional>
#include <vector>

#include "dgx/core/tensor.h"
#include "dgx/kernels/primitive.h"

namespace dgx::lowering {

/// A tensor of the captured graph as the lowering knows it: one number everywhere (`splat`), or an earlier
/// value seen through one access whose coordinates are written in the tensor's own indices i0, i1, …. Views
/// change the form and cost no line.
struct TensorForm {
  DType dtype = DType::kF32;
  Shape shape;
  std::optional<kernels::Literal> splat;
  kernels::ValueIndex value{};
  Shape value_shape;  ///< the value's own
  Shape base;         ///< the shape that coordinates index: value_shape, or another of equal count
  /// One for each dimension of `base`. They may reach outside it only if there is a fill.
  std::vector<kernels::Coordinate> coordinates;
  /// The number that is read outside.
  std::optional<kernels::Literal> fill;
};

/// The number as a literal of the dtype.
[[nodiscard]] kernels::Literal literal_of(DType dtype, double number);

[[nodiscard]] kernels::Coordinate constant_index(std::int64_t value);
/// `scale`·iN + `shift`.
[[nodiscard]] kernels::Coordinate output_index(std::size_t n, std::int64_t scale = 1, std::int64_t shift = 0);
[[nodiscard]] kernels::Coordinate fold_index(std::size_t n);
[[nodiscard]] std::vector<kernels::Coordinate> output_indices(std::size_t rank);

[[nodiscard]] TensorForm splat_form(DType dtype, Shape shape, kernels::Literal number);
/// The whole of a value.
[[nodiscard]] TensorForm value_form(kernels::ValueIndex value, DType dtype, Shape shape);

/// The access that reads the form's element at `indices`: one coordinate without division for each of its
/// dimensions. Not for a splat.
[[nodiscard]] kernels::Access access_at(const TensorForm& form,
                                        const std::vector<kernels::Coordinate>& indices);
/// A form of another shape, whose element is this one's at `indices`, which are written in the new shape's
/// indices.
[[nodiscard]] TensorForm remap(const TensorForm& form, Shape shape,
                               const std::vector<kernels::Coordinate>& indices);
/// NumPy's rule: missing outer dimensions, and dimensions of 1, repeat. The shapes must fit.
[[nodiscard]] TensorForm broadcast_to(const TensorForm& form, const Shape& shape);
/// True if `from` broadcasts to `to`.
[[nodiscard]] bool broadcasts(const Shape& from, const Shape& to);
/// True if the form's elements, in row-major order, are the value's: its coordinates are its own indices.
[[nodiscard]] bool is_contiguous(const TensorForm& form);
/// The elements in row-major order in another shape of equal count, or nullopt if one access cannot express
/// it.
[[nodiscard]] std::optional<TensorForm> reshape(const TensorForm& form, const Shape& shape);

/// The form of a fold over some dimensions of a tensor.
struct Reduction {
  Shape shape;                               ///< the fold's value's: without the summed dimensions
  Shape fold;                                ///< sizes of the summed dimensions; those of 1 are left out
  std::vector<kernels::Coordinate> indices;  ///< coordinates into the tensor, in output and fold indices
  Shape restored_shape;                      ///< the tensor's, summed dimensions as 1
  /// The fold's value as a tensor of restored_shape.
  [[nodiscard]] TensorForm restored(const TensorForm& value) const;
};
[[nodiscard]] Reduction reduction_over(const Shape& shape, const std::vector<std::size_t>& dimensions);

}  // namespace dgx::lowering
