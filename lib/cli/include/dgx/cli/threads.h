#pragma once

namespace dgx::cli {

/// The number of CPUs that this process may use, cpu_limit(), limited by SLURM_CPUS_PER_TASK and
/// OMP_NUM_THREADS where they are set. At least 1.
[[nodiscard]] int default_threads();

}  // namespace dgx::cli
