#pragma once

#include "dgx/core/result.h"
#include "dgx/lowering/aten.h"

namespace dgx::jobs {

/// Opens libdgx_torch.so, once per process: $DGX_TORCH_MODULE, else in ../lib/dgx from the program's folder.
/// The backend lives as long as the process. kInternal with a hint if the module or its libtorch is missing.
/// Cost: 0.2 s.
[[nodiscard]] Result<lowering::CaptureBackend*> open_torch_module();

}  // namespace dgx::jobs
