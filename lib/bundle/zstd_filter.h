#pragma once

#include <hdf5.h>

/// Filter 32015 for HDF5's own pipeline, as used by h5dump, h5py and H5Dread. Our own readers and writers
/// bypass it (they handle whole chunks, in threads), but HDF5 requires a filter to be known before it makes a
/// dataset.
namespace dgx::bundle::h5 {

/// The returned class has static storage.
[[nodiscard]] const H5Z_class2_t* zstd_filter_class();

}  // namespace dgx::bundle::h5
