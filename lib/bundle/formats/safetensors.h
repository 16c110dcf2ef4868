#pragma once

#include <string>

#include "dgx/bundle/sources.h"
#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

namespace dgx::bundle {

/// read_safetensor() of a file's bytes; messages lack the file's name.
[[nodiscard]] Result<BulkTensor> parse_safetensor(const BulkTensor& file, const std::string& name,
                                                  const Reading& reading);

}  // namespace dgx::bundle
