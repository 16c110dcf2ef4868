#pragma once

#include "dgx/kernels/primitive.h"

namespace dgx::program {

[[nodiscard]] inline bool is_input(const kernels::Primitive& line) {
  return line.kind == kernels::Kind::kInput;
}
/// True for an input that is an entry of the state.
[[nodiscard]] inline bool is_entry(const kernels::Primitive& line) {
  return is_input(line) && line.source.kind == kernels::Source::Kind::kState;
}

}  // namespace dgx::program
