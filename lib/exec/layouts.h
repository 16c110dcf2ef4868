#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dgx/core/tensor.h"
#include "dgx/program/program.h"
#include "linear.h"

namespace dgx::exec {

struct MatmulTask;

/// The memory layout of a value of shape [r, c]. It is internal to an executor: what enters or leaves one is
/// in rows. A weight that products read as their right side stays packed from step to step, and so do its
/// gradient and all that is updated with it.
enum class Layout : std::uint8_t {
  kRows,             ///< row-major
  kStrips,           ///< a kernels::cpu::PackedMatrix of depth r and c columns
  kTransposedStrips  ///< the transposed value, packed: depth c, r columns
};

/// The strips of a packed value; `columns` is a multiple of the strips' width.
struct StripForm {
  std::int64_t depth = 0, columns = 0;

  [[nodiscard]] static StripForm of(const Shape& shape, Layout layout);
  [[nodiscard]] std::int64_t count() const;   ///< strips
  [[nodiscard]] std::int64_t length() const;  ///< numbers in a strip
  [[nodiscard]] std::int64_t stride() const;  ///< numbers from one strip to the next
};

/// Bytes of a value in layout `layout`.
[[nodiscard]] std::int64_t bytes_of(const kernels::Primitive& value, Layout layout);
/// Converts f32 rows of shape [r, c] to the packed layout `layout`, and back.
[[nodiscard]] Tensor pack(const Tensor& rows, Layout layout);
[[nodiscard]] Tensor unpack(const TensorView& packed, const Shape& shape, Layout layout);

/// The input of choose_layouts(), by value.
struct LayoutQuestion {
  const program::Program& program;
  const std::vector<std::optional<std::vector<LinearAccess>>>& linear;
  const std::vector<std::size_t>& task_of;         ///< the maps of one fused group have one task
  const std::vector<bool>& is_map;                 ///< a map that strip programs can take
  const std::vector<const MatmulTask*>& products;  ///< null: not a product
  const std::vector<kernels::ValueIndex>& keep;
};

/// Chooses each value's layout. Packs state that the step changes if every use of it, and of what must share
/// its layout, allows this: as the right side of products, all of one orientation; as the output of products;
/// element by element.
[[nodiscard]] std::vector<Layout> choose_layouts(const LayoutQuestion& question);

}  // namespace dgx::exec
