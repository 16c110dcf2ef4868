#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::kernels::cuda::emulated {

/// A generated kernel, for one thread, with its addresses.
using GeneratedFunction = void (*)(const void* addresses);

/// Why compile_library() cannot be used; empty: it can.
[[nodiscard]] std::string why_no_library();

/// Kernels k0, k1, … of a text (generated.cuh), `count` of them, by the compiler that dgx was built with; with DGX_TRANSLATED_KERNELS, of what NVRTC makes
/// of the text, translated (tests/gpu/ptx). The same text in the same process is compiled once. They stay as long as the process lives. kInternal with what the
/// compiler says.
[[nodiscard]] Result<std::vector<GeneratedFunction>> compile_library(const std::string& text, std::int32_t count);

}  // namespace dgx::kernels::cuda::emulated
