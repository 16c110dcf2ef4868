#pragma once

#include <hdf5.h>

#include <cstdint>

#include "dgx/core/result.h"

/// The driver by which HDF5 reads a container that is already open, so that it needs neither its name nor the
/// right to open anything.
namespace dgx::bundle::h5 {

/// A container in an open descriptor, and where HDF5 last wanted numbers in it. Must outlive the file.
struct Container {
  int descriptor = -1;
  std::uint64_t begin = 0;  ///< offset of the superblock; what precedes it is ignored
  std::uint64_t size_bytes = 0;

  /// While true, numbers are not read: `numbers_at` gets the place they would have been read from.
  bool locating = false;
  std::uint64_t numbers_at = 0;
};

/// Makes any file opened with `access`, whatever its name, be the container.
[[nodiscard]] Status use_read_driver(hid_t access, Container* container);

}  // namespace dgx::bundle::h5
