#pragma once

#include <cstdint>

#include "dgx/core/tensor.h"
#include "dgx/program/program.h"

namespace dgx::exec {

/// The memory layout of a value of shape [r, c]. It is internal to an executor: what enters or leaves one is
/// in rows. A weight that products read as their right side stays packed from step to step, in panels of 16
/// columns, and so do its gradient and all that is updated with it.
enum class Layout : std::uint8_t {
  kRows,             ///< row-major
  kPanels,           ///< a kernels::cpu::PackedMatrix of depth r and c columns
  kTransposedPanels  ///< the transposed value, packed: depth c, r columns
};

/// The panels of a packed value; `columns` is a multiple of the panels' width.
struct PanelForm {
  std::int64_t depth = 0, columns = 0;

  [[nodiscard]] static PanelForm of(const Shape& shape, Layout layout);
  [[nodiscard]] std::int64_t count() const;   ///< panels
  [[nodiscard]] std::int64_t length() const;  ///< numbers in a panel
  [[nodiscard]] std::int64_t stride() const;  ///< numbers from one panel to the next
};

/// Bytes of a value in layout `layout`.
[[nodiscard]] std::int64_t bytes_of(const kernels::Primitive& value, Layout layout);
/// Converts f32 rows of shape [r, c] to the packed layout `layout`, and back.
[[nodiscard]] Tensor pack(const Tensor& rows, Layout layout);
[[nodiscard]] Tensor unpack(const TensorView& packed, const Shape& shape, Layout layout);

}  // namespace dgx::exec
