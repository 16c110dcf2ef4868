# The Debian packages, one for each component that this build has (README.md, "Installing"). The same source and tools give the same bytes: with the
# preset `package` no path of the build is in them, and their time is that of the last commit.
set(dgx_package_of_programs dgx)
set(dgx_package_of_torch dgx-torch)
set(dgx_package_of_cuda dgx-cuda)
set(dgx_package_of_mpi dgx-mpi)
set(dgx_package_of_hdf5 dgx-hdf5-plugin)
set(dgx_package_of_dev libdgx-dev)

set(CPACK_COMPONENTS_ALL programs hdf5)
foreach(component torch cuda mpi)
  if(TARGET dgx_${component})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endif()
endforeach()
if(TARGET dgx_archive)
  list(APPEND CPACK_COMPONENTS_ALL dev)
endif()

# Shared libraries bring their licences in their own packages. Those of what is inside our files, static libraries and headers, are in ours.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  install(FILES LICENSE DESTINATION share/doc/${dgx_package_of_${component}} COMPONENT ${component} EXCLUDE_FROM_ALL RENAME copyright)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${dgx_package_of_${component}})
endforeach()
foreach(package libhdf5-dev libcli11-dev nlohmann-json3-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION share/doc/dgx COMPONENT programs EXCLUDE_FROM_ALL RENAME copyright.${package} OPTIONAL)
endforeach()

set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGE_NAME dgx)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "whoever built it <root@localhost>" CACHE STRING "the packages' maintainer: NAME <ADDRESS>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/DgxRepack.cmake)
set(CPACK_DGX_TIME ${DGX_TIME})
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/DgxTime.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE none)  # DgxRepack compresses
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # libtorch, which no package has, is left out with a warning
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)  # NAME-dbgsym

set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION "buy neural-network training, and know that it was done
Small programs that train neural networks bit for bit alike on every machine,
prove the work, verify and dispute the proof, and settle who is paid.")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "dgx-torch, dgx-cuda, dgx-mpi, dgx-hdf5-plugin")
set(CPACK_DEBIAN_TORCH_DESCRIPTION "tasks from PyTorch models, for dgx
The module with which dgx-submit captures a model, libdgx_torch.so. It needs
libtorch ${dgx_torch_version}, which this package does not hold: dgx(7), FILES, says where it
looks for it.")
set(CPACK_COMPONENT_TORCH_DEPENDS programs)
set(CPACK_DEBIAN_CUDA_DESCRIPTION "NVIDIA GPUs, for dgx
The module that --device cuda opens, libdgx_cuda.so. It needs NVIDIA's driver and NVRTC,
and computes the same bits as the processor.")
set(CPACK_COMPONENT_CUDA_DEPENDS programs)
set(CPACK_DEBIAN_MPI_DESCRIPTION "training on several machines, for dgx
The module that --mpi opens, libdgx_mpi.so. It needs the MPI that it was built with,
and the same package on all machines.")
set(CPACK_COMPONENT_MPI_DEPENDS programs)
set(CPACK_DEBIAN_HDF5_DESCRIPTION "zstd filter for HDF5, to read the bundles of dgx
With it h5py, h5dump and whatever else uses Debian's HDF5 read compressed
datasets of dgx's files. The programs of dgx do not need it.")
set(CPACK_DEBIAN_HDF5_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEV_DESCRIPTION "verify proofs and judge disputes of dgx from C++
The static library, its headers, and the CMake package dgx.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libfmt-dev, libhdf5-dev, libhwy-dev, libsodium-dev, libssl-dev, libzstd-dev, pkg-config, zlib1g-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, g++")
include(CPack)
