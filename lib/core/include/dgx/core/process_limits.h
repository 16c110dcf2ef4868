#pragma once

#include <cstdint>

/// A process's share of the machine: what its job was given, not what the node has.
namespace dgx {

/// CPUs that this process may use: those of its affinity mask, and no more than the time that its control
/// groups (versions 1 and 2) have, rounded up, which the ranks that mpirun has started on this machine share.
/// At least 1. Looked up once.
[[nodiscard]] int cpu_limit();

/// Bytes that this process may use: the machine's memory, or less if its control groups or Slurm's variables
/// of its job (SLURM_MEM_PER_NODE; SLURM_MEM_PER_CPU and SLURM_CPUS_ON_NODE) say so, of which `processes`
/// alike have equal shares; and no more than its address space limit.
[[nodiscard]] std::int64_t memory_limit(int processes = 1);

}  // namespace dgx
