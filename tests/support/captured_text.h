#pragma once

#include <string>

#include "dgx/lowering/aten.h"

namespace dgx::test {

/// Opens the libdgx_torch.so at `path` and leaves it open; null, with dlerror() on standard error, if that
/// fails.
[[nodiscard]] lowering::CaptureBackend* open_capture_backend(const std::string& path);

/// One line for each input and source, "%5 f32[2,3]", then one for each call: "%7 f32[2,3] =
/// aten::addmm(self=%1, …) # place".
[[nodiscard]] std::string captured_text(const lowering::CapturedGraph& graph);

}  // namespace dgx::test
