#include "dgx/jobs/mpi_module.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace dgx;

namespace {

/// Sets variables, after all that launchers of MPI set are gone.
void set_only(std::initializer_list<std::pair<const char*, const char*>> variables) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"})
    ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
}

}  // namespace

TEST_CASE("a program knows as how many ranks it was launched") {
  set_only({});
  CHECK(jobs::launched_ranks() == 1);
  set_only({{"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK(jobs::launched_ranks() == 4);
  set_only({{"PMI_SIZE", "3"}});
  CHECK(jobs::launched_ranks() == 3);
  set_only({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  CHECK(jobs::launched_ranks() == 8);
}

TEST_CASE("tasks that are no ranks of MPI, one rank and nonsense count as one") {
  set_only({{"SLURM_STEP_NUM_TASKS", "8"}});
  CHECK(jobs::launched_ranks() == 1);
  set_only({{"PMIX_RANK", "0"}});
  CHECK(jobs::launched_ranks() == 1);
  set_only({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}});
  CHECK(jobs::launched_ranks() == 1);
  for (const char* nonsense : {"", "x", "4x", "-3", "0", "99999999999999999999"}) {
    set_only({{"OMPI_COMM_WORLD_SIZE", nonsense}});
    CHECK(jobs::launched_ranks() == 1);
  }
}

TEST_CASE("several ranks that were not told so are refused with a hint") {
  set_only({});
  CHECK(jobs::check_launched_alone().ok());
  set_only({{"OMPI_COMM_WORLD_SIZE", "2"}});
  const Status status = jobs::check_launched_alone();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kUsage);
  CHECK(status.error().message == "started as 2 ranks, each of which would do all of the work");
  CHECK(status.error().hint == "add --mpi to share it, or start one process without mpirun or srun");
}

TEST_CASE("a module that is missing or another one is refused with a hint") {
  ::setenv("DGX_MPI_MODULE", "/nonexistent/libdgx_mpi.so", 1);
  const auto missing = jobs::open_mpi();
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kInternal);
  CHECK(missing.error().message.starts_with("--mpi: cannot open its module: /nonexistent/libdgx_mpi.so: "));
  CHECK(missing.error().hint.find("DGX_MPI_MODULE") != std::string::npos);

  ::setenv("DGX_MPI_MODULE", "libm.so.6", 1);
  const auto other = jobs::open_mpi();
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().code == ErrorCode::kInternal);
  CHECK(other.error().message == "libm.so.6: it belongs to another version of dgx");
}
