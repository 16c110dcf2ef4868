# One way to declare a module, a program and a unit test, so that the dependency rule of lib/README.md is the build's.

option(DGX_SANITIZE "build with the address and undefined-behaviour sanitizers" OFF)

find_program(DGX_CCACHE ccache)
if(DGX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DGX_CCACHE})
endif()

# What every target of ours is compiled with. -ffp-contract=off is part of the numeric contract (dgx-numerics(7)): a
# fused multiply-add happens only where it is written.
add_library(dgx_flags INTERFACE)
target_compile_features(dgx_flags INTERFACE cxx_std_20)
target_compile_options(dgx_flags INTERFACE
  -ffp-contract=off -fno-math-errno -Wall -Wextra -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives from inlined std::vector code.
  target_compile_options(dgx_flags INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-restrict)
endif()
if(DGX_SANITIZE)
  target_compile_options(dgx_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(dgx_flags INTERFACE -fsanitize=address,undefined)
endif()
# A module that programs open is linked against all that it needs. Not with clang's sanitizers, whose runtime is in the program alone.
set(DGX_LINK_WHOLE -Wl,-z,defs)
if(DGX_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(DGX_LINK_WHOLE "")
endif()

# dgx_compile_briefly(TARGET …): for code whose time is not worth a long compilation, a quarter less at -O1. An unoptimized build stays one.
function(dgx_compile_briefly)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  endforeach()
endfunction()

# dgx_module(NAME SOURCES a.cc … [USES dgx_core …] [USES_INSIDE dgx_merkle …] [THIRD_PARTY lib …])
# Declares dgx_NAME with include root include/. USES is public: the modules that its public headers include. USES_INSIDE is private: those that
# only its sources include. So is THIRD_PARTY: no header of a module may name a third party's type.
function(dgx_module name)
  cmake_parse_arguments(ARG "SHARED" "" "SOURCES;USES;USES_INSIDE;THIRD_PARTY" ${ARGN})
  set(kind STATIC)
  if(ARG_SHARED)
    set(kind SHARED)
  endif()
  add_library(dgx_${name} ${kind} ${ARG_SOURCES})
  set_target_properties(dgx_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(dgx_${name} PUBLIC include PRIVATE .)
  target_link_libraries(dgx_${name} PUBLIC ${ARG_USES} fmt::fmt PRIVATE dgx_flags ${ARG_USES_INSIDE} ${ARG_THIRD_PARTY})
endfunction()

# dgx_run_path(TARGET [PATH …]): the target finds libraries at these places relative to itself and at none else. CMake would write
# absolute paths of the build into it: once that folder is gone, whoever can make it again could put a library there.
function(dgx_run_path target)
  list(TRANSFORM ARGN PREPEND "$ORIGIN/" OUTPUT_VARIABLE places)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${places}")
endfunction()

# dgx_linked_libraries(OUT TARGET …): "name version" of every third party that the targets and what they use link.
function(dgx_linked_libraries out)
  set(seen "")
  set(queue ${ARGN})
  set(lines "")
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(item IN_LIST seen)
      continue()
    endif()
    list(APPEND seen "${item}")
    if(DEFINED DGX_VERSION_OF_${item})
      list(APPEND lines "${DGX_VERSION_OF_${item}}")
    elseif(item MATCHES "^dgx_" AND TARGET ${item})
      foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
        get_target_property(used ${item} ${property})
        if(used)
          list(APPEND queue ${used})
        endif()
      endforeach()
    endif()
  endwhile()
  list(SORT lines)
  list(REMOVE_DUPLICATES lines)
  list(JOIN lines "\\n" lines)
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

# dgx_program(NAME SOURCES FILE … USES …): tools/NAME.cc, and FILEs of the folders below, as build/…/bin/NAME, installed, with the list of linked
# libraries that --version prints.
# dgx_program(FILE PROGRAMS NAME … SOURCES FILE … USES …): several programs in one file, build/…/libexec/FILE, which holds the libraries that they share once. Each
# bin/NAME is a link to it; the name by which the file is called chooses the program. A shared library would not do: Debian's static HDF5 is not
# position-independent, and its shared one doubles the time in which a program starts (DgxHdf5.cmake).
function(dgx_program name)
  cmake_parse_arguments(ARG "" "" "PROGRAMS;SOURCES;USES" ${ARGN})
  dgx_linked_libraries(libraries ${ARG_USES})
  file(CONFIGURE OUTPUT ${name}_libraries.cc CONTENT
    "namespace dgx::cli { extern const char* const kLinkedLibraries; const char* const kLinkedLibraries = \"@libraries@\"; }\n"
    @ONLY)
  set(sources ${name}.cc)
  set(folder bin)
  if(ARG_PROGRAMS)
    dgx_main_of(sources ${name} ${ARG_PROGRAMS})
    set(folder libexec)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  endif()
  add_executable(${name} ${sources} ${ARG_SOURCES} ${CMAKE_CURRENT_BINARY_DIR}/${name}_libraries.cc)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  target_link_libraries(${name} PRIVATE dgx_flags ${ARG_USES})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  # Inline functions and templates that nothing calls are left out.
  target_link_options(${name} PRIVATE -Wl,--gc-sections)
  dgx_run_path(${name})
  add_dependencies(programs ${name})
  install(TARGETS ${name} RUNTIME DESTINATION ${folder} COMPONENT programs)
  foreach(program IN LISTS ARG_PROGRAMS)
    add_custom_command(TARGET ${name} POST_BUILD VERBATIM BYPRODUCTS ${CMAKE_BINARY_DIR}/bin/${program}
      COMMAND ${CMAKE_COMMAND} -E create_symlink ../libexec/${name} ${CMAKE_BINARY_DIR}/bin/${program})
    add_custom_target(${program})
    add_dependencies(${program} ${name})
    install(PROGRAMS ${CMAKE_BINARY_DIR}/bin/${program} DESTINATION bin COMPONENT programs)
  endforeach()
endfunction()

# dgx_main_of(OUT FILE NAME …): the sources of the programs, whose main functions get names of their own, and a generated main that chooses one of them.
function(dgx_main_of out file)
  set(sources ${CMAKE_CURRENT_BINARY_DIR}/${file}.cc)
  foreach(program IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER main_of_${program} main)
    set_source_files_properties(${program}.cc PROPERTIES COMPILE_DEFINITIONS main=${main})
    string(APPEND declarations "int ${main}(int argc, char** argv);\n")
    string(APPEND choices "  if (name == \"${program}\") return ${main}(argc, argv);\n")
    list(APPEND sources ${program}.cc)
  endforeach()
  list(JOIN ARGN ", " names)
  file(CONFIGURE OUTPUT ${file}.cc @ONLY CONTENT
"#include <cstdio>
#include <string_view>

@declarations@
int main(int argc, char** argv) {
  std::string_view name = argc > 0 ? argv[0] : \"\";
  name.remove_prefix(name.rfind('/') + 1);
@choices@  std::fputs(\"@file@: error: the name that it is called by is none of its programs\\nhint: call it as one of @names@\\n\", stderr);
  return 2;
}
")
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# dgx_unit_test(NAME SOURCES a_test.cc … USES dgx_core …): a Catch2 program and a ctest of the same name.
function(dgx_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE dgx_flags ${ARG_USES} dgx_catch_main)
  add_test(NAME unit/${name} COMMAND ${name}_test)
endfunction()
