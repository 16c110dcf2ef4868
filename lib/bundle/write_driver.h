#pragma once

#include <hdf5.h>

#include "dgx/core/result.h"

/// The driver through which new files are written. HDF5 1.10 crashes, at once or when the process ends, if
/// its own driver fails to write, as on a full disk. So this driver never fails: it records the first error
/// and drops every later write, and the writer checks it before trusting the file.
namespace dgx::bundle::h5 {

/// errno of the first write that failed, or 0. Must outlive the file.
struct WriteOutcome {
  int reason = 0;
};

/// Makes files created with `access` write through this driver.
[[nodiscard]] Status use_write_driver(hid_t access, WriteOutcome* outcome);

}  // namespace dgx::bundle::h5
