// libdgx_h5zstd.so: for other programs. HDF5_PLUGIN_PATH=FOLDER lets h5py, h5dump and the others read
// compressed datasets of our bundles. dgx-bundle(5), "Compression".

#include <H5PLextern.h>

#include "zstd_filter.h"

extern "C" {

H5PLUGIN_DLL H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
H5PLUGIN_DLL const void* H5PLget_plugin_info(void) { return dgx::bundle::h5::zstd_filter_class(); }

}  // extern "C"
