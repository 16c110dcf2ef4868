#pragma once

#include <hdf5.h>

/// Filter 32015 for HDF5's own pipeline: what h5dump, h5py and H5Dread use. Our own readers and writers do
/// not go through it (they handle whole chunks, in threads), but HDF5 wants a filter to be known before it
/// makes a dataset.
namespace dgx::bundle::h5 {

/// Static storage.
[[nodiscard]] const H5Z_class2_t* zstd_filter_class();

}  // namespace dgx::bundle::h5
