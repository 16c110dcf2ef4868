#pragma once

#include <cstdint>
#include <functional>

#include "dgx/kernels/primitive.h"

namespace dgx::program {

/// The most 1 KiB leaves that one element of a map, or one term of a fold, may have to open, over all choices
/// of its selects (dgx-program(5), "Accesses"). Exact but where choices are so many that they are merged,
/// which can only give more. `byte_size` is a value's size.
///
/// An access opens its own leaf and those of the accesses its `$j` read. Equal accesses are one leaf; so are
/// those with constant coordinates into one value of at most 1 KiB. Needs a primitive that compiles
/// (kernels/compiled.h) with at most 64 accesses.
[[nodiscard]] int leaf_count(const kernels::Primitive& primitive,
                             const std::function<std::int64_t(kernels::ValueIndex)>& byte_size);

}  // namespace dgx::program
