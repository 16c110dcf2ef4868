#pragma once

namespace dgx::cli {

/// The CPUs this process may use: its affinity mask, and no more than SLURM_CPUS_PER_TASK and OMP_NUM_THREADS where
/// they are set. At least 1.
[[nodiscard]] int default_threads();

}  // namespace dgx::cli
