#pragma once

#include <string>

#include "dgx/core/result.h"
#include "read_driver.h"
#include "table.h"

namespace dgx::bundle {

/// The HDF5 library's description of the dataset at `path` of a container. The library is not made for files
/// of strangers: call this only in a process that has nothing to lose.
[[nodiscard]] Result<Table> read_table(h5::Container& container, const std::string& path);

}  // namespace dgx::bundle
