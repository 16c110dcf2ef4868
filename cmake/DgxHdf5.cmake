# dgx_hdf5: HDF5's static library where one can be linked, else the shared one. Debian's shared HDF5 needs libcurl, for files on the web, which
# nothing here opens, and with it thirty more libraries: a program starts in 8 ms with the one and in 3.5 with the other. Programs with
# sanitizers link the shared one: its leaks are told from ours by its name.
include(CheckCXXSourceCompiles)
add_library(dgx_hdf5 INTERFACE IMPORTED)
find_library(DGX_HDF5_STATIC NAMES libhdf5_serial.a libhdf5.a)
find_library(DGX_SZIP NAMES sz)
if(DGX_HDF5_STATIC AND DGX_SZIP AND NOT DGX_SANITIZE)
  set(dgx_hdf5_static ${DGX_HDF5_STATIC} ${DGX_SZIP} PkgConfig::zlib m ${CMAKE_DL_LIBS})
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_LIBRARIES ${dgx_hdf5_static})
  check_cxx_source_compiles("#include <hdf5.h>
int main() { return H5open() + H5Dopen2(0, \"\", 0) == 0; }" DGX_HDF5_STATIC_LINKS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(DGX_HDF5_STATIC_LINKS)
  target_include_directories(dgx_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
  target_link_libraries(dgx_hdf5 INTERFACE ${dgx_hdf5_static})
else()
  target_link_libraries(dgx_hdf5 INTERFACE hdf5::hdf5)
endif()
