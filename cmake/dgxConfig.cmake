# find_package(dgx) gives dgx::dgx, the library that replays, verifies and judges (examples/library).
if(TARGET dgx::dgx)
  return()
endif()
enable_language(C)  # FindHDF5 asks the C compiler
include(${CMAKE_CURRENT_LIST_DIR}/DgxLibraries.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/dgxTargets.cmake)
