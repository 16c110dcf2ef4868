# What is installed, by component: programs (to which dgx_program adds each of them), torch, cuda, mpi, hdf5 (the filter for other people's programs), and dev,
# which is installed only if it is named. Each file finds the others from its own place, as in the build folder (dgx(7), FILES): any prefix will do.
include(CMakePackageConfigHelpers)

install(TARGETS dgx_h5 RUNTIME DESTINATION libexec COMPONENT programs)
if(TARGET dgx_http)
  install(TARGETS dgx_http LIBRARY DESTINATION lib/dgx COMPONENT programs)
endif()
foreach(module torch cuda mpi)
  if(TARGET dgx_${module})
    install(TARGETS dgx_${module} LIBRARY DESTINATION lib/dgx COMPONENT ${module})
  endif()
endforeach()

# Under /usr, zsh and HDF5 look where Debian makes them look.
set(zsh_folder share/zsh/site-functions)
set(plugin_folder lib/dgx/hdf5-plugin)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(zsh_folder share/zsh/vendor-completions)
  find_file(DGX_H5PUBCONF H5pubconf.h HINTS ${HDF5_INCLUDE_DIRS} REQUIRED)
  file(STRINGS ${DGX_H5PUBCONF} line REGEX "H5_DEFAULT_PLUGINDIR \"/usr/")
  if(line)
    string(REGEX REPLACE ".*\"/usr/(.*)\".*" "\\1" plugin_folder ${line})
  endif()
endif()
install(TARGETS dgx_h5zstd LIBRARY DESTINATION ${plugin_folder} COMPONENT hdf5)
install(DIRECTORY completions/bash/ DESTINATION share/bash-completion/completions COMPONENT programs)
install(DIRECTORY completions/zsh/ DESTINATION ${zsh_folder} COMPONENT programs)
install(DIRECTORY completions/fish/ DESTINATION share/fish/vendor_completions.d COMPONENT programs)
install(FILES README.md DESTINATION share/doc/dgx COMPONENT programs)
install(PROGRAMS examples/audit.sh DESTINATION share/doc/dgx/examples COMPONENT programs)
install(DIRECTORY examples/slurm DESTINATION share/doc/dgx/examples COMPONENT programs)
install(DIRECTORY examples/audit DESTINATION share/doc/dgx/examples COMPONENT programs PATTERN __pycache__ EXCLUDE)

if(NOT TARGET dgx_archive)
  return()
endif()
install(TARGETS dgx_archive EXPORT dgx ARCHIVE DESTINATION lib COMPONENT dev EXCLUDE_FROM_ALL INCLUDES DESTINATION include)
# Debug information would make it ten times as large.
install(CODE "execute_process(COMMAND ${CMAKE_OBJCOPY} --strip-debug --enable-deterministic-archives
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/libdgx.a\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT dev EXCLUDE_FROM_ALL)
foreach(folder core crypto exchange kernels/ref kernels/cuda merkle bundle program placement exec manifest ledger protocol jobs)
  install(DIRECTORY lib/${folder}/include/ DESTINATION include COMPONENT dev EXCLUDE_FROM_ALL PATTERN jobs/submit.h EXCLUDE
    PATTERN jobs/pack.h EXCLUDE PATTERN bundle/pack_sources.h EXCLUDE)
endforeach()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/dgxConfigVersion.cmake COMPATIBILITY ExactVersion)
set(config_folder lib/cmake/dgx)
install(EXPORT dgx NAMESPACE dgx:: FILE dgxTargets.cmake DESTINATION ${config_folder} COMPONENT dev EXCLUDE_FROM_ALL)
install(FILES cmake/dgxConfig.cmake cmake/DgxLibraries.cmake cmake/DgxHdf5.cmake ${CMAKE_BINARY_DIR}/dgxConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT dev EXCLUDE_FROM_ALL)
install(DIRECTORY examples/library DESTINATION share/doc/libdgx-dev/examples COMPONENT dev EXCLUDE_FROM_ALL PATTERN build EXCLUDE)
