#include "dgx/cli/threads.h"

#include <catch2/catch.hpp>
#include <cstdlib>

namespace dgx::cli {

TEST_CASE("a scheduler's and OpenMP's numbers lower the number of threads and never raise it") {
  unsetenv("SLURM_CPUS_PER_TASK");
  unsetenv("OMP_NUM_THREADS");
  const int cpus = default_threads();
  REQUIRE(cpus >= 1);
  setenv("SLURM_CPUS_PER_TASK", "1", 1);
  CHECK(default_threads() == 1);
  setenv("SLURM_CPUS_PER_TASK", "100000", 1);
  CHECK(default_threads() == cpus);
  setenv("OMP_NUM_THREADS", "1,4", 1);
  CHECK(default_threads() == 1);
  setenv("OMP_NUM_THREADS", "nonsense", 1);
  CHECK(default_threads() == cpus);
  setenv("OMP_NUM_THREADS", "0", 1);
  CHECK(default_threads() == cpus);
  unsetenv("SLURM_CPUS_PER_TASK");
  unsetenv("OMP_NUM_THREADS");
}

}  // namespace dgx::cli
