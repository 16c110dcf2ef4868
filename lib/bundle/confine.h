#pragma once

#include <string>

/// Gives up all that a process does not need for computing: files, sockets, processes, unlimited memory.
namespace dgx::bundle {

/// The restrictions in force.
struct Confinement {
  bool limits = false;    ///< rlimits: memory, processor time, descriptors, no core file
  bool syscalls = false;  ///< seccomp: only calls that work on memory and open descriptors
  bool files = false;     ///< Landlock: no opening of files by name
};

/// Confines this process; irreversible. Threads that already exist are not confined. Sanitizers reserve
/// terabytes and read files, so with them only the restrictions that they tolerate are in force.
[[nodiscard]] Confinement confine_this_process();

/// "limits, syscalls, files", or "nothing".
[[nodiscard]] std::string describe(const Confinement& confinement);

}  // namespace dgx::bundle
