#pragma once

#include <hdf5.h>

#include <cstdint>

#include "dgx/core/result.h"

/// How HDF5 reads a container that somebody else has opened, so that it needs no name, and no right to open
/// anything.
namespace dgx::bundle::h5 {

/// A container within a descriptor, and where HDF5 last wanted numbers in it. Must outlive the file.
struct Container {
  int descriptor = -1;
  std::uint64_t begin = 0;  ///< of the superblock: what is before it is nobody's business
  std::uint64_t size_bytes = 0;

  /// While it is set, numbers are not read: `numbers_at` says where they would have been.
  bool locating = false;
  std::uint64_t numbers_at = 0;
};

/// Makes the file opened with `access`, whatever its name, the container.
[[nodiscard]] Status use_read_driver(hid_t access, Container* container);

}  // namespace dgx::bundle::h5
