#pragma once

#include <hdf5.h>

#include "dgx/core/result.h"

/// How new files reach the disk. HDF5 1.10 crashes, at once or when the process ends, if its own driver fails
/// to write: a disk that is full must not do that. So this driver never fails: it remembers the first error
/// and drops every later write, and the writer asks before it believes in its file.
namespace dgx::bundle::h5 {

/// errno of the first write that failed, or 0. Must outlive the file.
struct WriteOutcome {
  int reason = 0;
};

/// Makes files created with `access` write through the driver.
[[nodiscard]] Status use_write_driver(hid_t access, WriteOutcome* outcome);

}  // namespace dgx::bundle::h5
