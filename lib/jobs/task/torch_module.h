#pragma once

#include "dgx/core/result.h"
#include "dgx/program/model_archive.h"

namespace dgx::jobs {

/// Opens libdgx_torch.so, once per process: $DGX_TORCH_MODULE, else in ../lib/dgx from the program's folder.
/// The module lives as long as the process. kInternal with a hint if the module or its libtorch is missing.
/// Only dgx-submit and dgx-inspect
/// may (tests/link/programs.py). Cost: 0.2 s.
[[nodiscard]] Result<program::ModelReader*> open_torch_module();

}  // namespace dgx::jobs
