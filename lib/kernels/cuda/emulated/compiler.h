#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels::cuda::emulated {

/// A generated kernel as a function that runs one of its threads, given its addresses.
using GeneratedFunction = void (*)(const void* addresses);

/// Nvrtc::open()'s error where compile_library() needs NVRTC and it cannot be used.
[[nodiscard]] Status check_compiler();

/// Compiles the `count` kernels k0, k1, … of a text (generated.cuh) with the compiler that dgx was built
/// with; with DGX_TRANSLATED_KERNELS, from the PTX that NVRTC makes of the text, translated (tests/gpu/ptx).
/// The same text is compiled once per process. Kernels stay as long as the process lives. kInternal with the
/// message of the compiler.
[[nodiscard]] Result<std::vector<GeneratedFunction>> compile_library(const std::string& text,
                                                                     std::int32_t count);

}  // namespace dgx::kernels::cuda::emulated
