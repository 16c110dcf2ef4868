# Third-party libraries, each named once. lib/README.md says which module may use which.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(CLI11 REQUIRED)
include(DgxHdf5)

# What --version says about each, by the name modules link it under.
set(DGX_VERSION_OF_fmt::fmt "fmt ${fmt_VERSION}")
set(DGX_VERSION_OF_OpenSSL::Crypto "libcrypto ${OPENSSL_VERSION}")
set(DGX_VERSION_OF_nlohmann_json::nlohmann_json "nlohmann-json ${nlohmann_json_VERSION}")
set(DGX_VERSION_OF_PkgConfig::sodium "libsodium ${sodium_VERSION}")
set(DGX_VERSION_OF_PkgConfig::zstd "zstd ${zstd_VERSION}")
set(DGX_VERSION_OF_PkgConfig::hwy "highway ${hwy_VERSION}")
set(DGX_VERSION_OF_PkgConfig::zlib "zlib ${zlib_VERSION}")
set(DGX_VERSION_OF_CLI11::CLI11 "cli11 ${CLI11_VERSION}")
set(DGX_VERSION_OF_dgx_hdf5 "hdf5 ${HDF5_VERSION}")

# libtorch: an imported target of our own, because the wheel's find_package(Torch) insists on a CUDA installation.
if(NOT DGX_TORCH STREQUAL "off")
  if(DGX_TORCH STREQUAL "pypi")
    set(dgx_torch_folder ${CMAKE_SOURCE_DIR}/build/deps/torch)
  else()
    set(dgx_torch_folder ${DGX_TORCH})
  endif()
  if(NOT EXISTS ${dgx_torch_folder}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "no libtorch in ${dgx_torch_folder}: run sh cmake/bootstrap.sh, or pass -DDGX_TORCH=off or a folder")
  endif()
  add_library(dgx_libtorch INTERFACE IMPORTED)
  target_include_directories(dgx_libtorch SYSTEM INTERFACE
    ${dgx_torch_folder}/include ${dgx_torch_folder}/include/torch/csrc/api/include)
  target_link_libraries(dgx_libtorch INTERFACE
    ${dgx_torch_folder}/lib/libtorch_cpu.so ${dgx_torch_folder}/lib/libc10.so)
  target_link_options(dgx_libtorch INTERFACE
    -Wl,-rpath,${dgx_torch_folder}/lib -Wl,-rpath-link,${dgx_torch_folder}/../nvidia/cu13/lib)
endif()
