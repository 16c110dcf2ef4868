#pragma once

#include <string>

/// A process gives up what it does not need to compute: files, sockets, processes, memory without end.
namespace dgx::bundle {

/// The walls that stand.
struct Confinement {
  bool limits = false;    ///< rlimits: memory, processor time, descriptors, no core file
  bool syscalls = false;  ///< seccomp: only calls that work on memory and open descriptors
  bool files = false;     ///< Landlock: no file by its name
};

/// Cannot be undone. Threads that exist already are not confined. With sanitizers, which reserve terabytes
/// and look at files, only what they can live with stands.
[[nodiscard]] Confinement confine_this_process();

/// "limits, syscalls, files", or "nothing".
[[nodiscard]] std::string describe(const Confinement& confinement);

}  // namespace dgx::bundle
