#include "dgx/jobs/mpi_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dgx/core/beside.h"
#include "dgx/exchange/interface.h"
#include "dgx/exchange/mpi.h"

namespace dgx::jobs {
namespace {

/// The number that a variable holds; 0 if it is not set, or none.
int number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  const std::string_view text = value != nullptr ? value : "";
  int out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size() ? out : 0;
}

}  // namespace

Result<std::unique_ptr<exchange::Exchange>> open_mpi() {
  const std::string path = beside_program("DGX_MPI_MODULE", "lib/dgx/libdgx_mpi.so");
  // Open for all as long as the process lives: plug-ins of Open MPI may look for its symbols among those of
  // all.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    return internal_error(std::string("--mpi: cannot open its module: ") + ::dlerror(),
                          "start one process without --mpi, or install dgx-mpi, or build dgx where MPI is "
                          "found, or set DGX_MPI_MODULE");
  }
  const auto open = reinterpret_cast<exchange::OpenMpiFunction>(::dlsym(handle, exchange::kOpenMpiSymbol));
  Result<std::unique_ptr<exchange::Exchange>> out = std::unique_ptr<exchange::Exchange>();
  if (open == nullptr || !open(exchange::kExchangeInterface, &out)) {
    return internal_error(path + ": it belongs to another version of dgx",
                          "build both together, or check DGX_MPI_MODULE");
  }
  return out;
}

int launched_ranks() {
  // mpirun of Open MPI; of MPICH and its kin, and srun --mpi=pmi2.
  const int ranks = std::max({1, number_in("OMPI_COMM_WORLD_SIZE"), number_in("PMI_SIZE")});
  // PMIx tells no number in a variable, but Slurm does: in steps of any kind, and PMIX_RANK in those of MPI.
  return std::getenv("PMIX_RANK") != nullptr ? std::max(ranks, number_in("SLURM_STEP_NUM_TASKS")) : ranks;
}

Status check_launched_with(int ranks) {
  const bool by_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  const int launched =
      by_mpirun ? launched_ranks() : std::max(launched_ranks(), number_in("SLURM_STEP_NUM_TASKS"));
  if (ranks > 1 || launched == 1) return {};
  return usage_error("--mpi: started as one of " + std::to_string(launched) +
                         " processes, of which MPI knows this one alone",
                     "use the mpirun of the MPI that dgx was built with, or srun --mpi=pmix");
}

Status check_launched_alone() {
  const int ranks = launched_ranks();
  if (ranks == 1) return {};
  return usage_error("started as " + std::to_string(ranks) + " ranks, each of which would do all of the work",
                     "add --mpi to share it, or start one process without mpirun or srun");
}

}  // namespace dgx::jobs
