#pragma once

#include "dgx/bundle/sources.h"
#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// read_npy() of a file's bytes, wherever they come from; messages lack the file's name.
[[nodiscard]] Result<BulkTensor> parse_npy(const BulkTensor& file, const Reading& reading);

}  // namespace dgx::bundle
