#pragma once

#include <memory>

#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"

namespace dgx::jobs {

/// Opens libdgx_mpi.so ($DGX_MPI_MODULE, else in ../lib/dgx from the program's folder) and starts MPI, once
/// in a process. kInternal with a hint if the module or MPI is missing, or belongs to another version of dgx.
[[nodiscard]] Result<std::unique_ptr<exchange::Exchange>> open_mpi();

/// The number of ranks that mpirun or srun started this program as, by the variables that they set: 1 if
/// neither did. Tasks of srun count only if it was told --mpi=pmix or --mpi=pmi2; otherwise each is a program
/// by itself.
[[nodiscard]] int launched_ranks();

/// kUsage with a hint if this process is alone, as MPI says, but was started as one of several: by a launcher
/// that belongs to another MPI, or by srun without --mpi. Each would train by itself.
[[nodiscard]] Status check_launched_with(int ranks);

/// For a program that was not told to be one of several ranks: kUsage with a hint if launched_ranks() is more
/// than one, since each of them would then do all of the work, and write to the same files.
[[nodiscard]] Status check_launched_alone();

}  // namespace dgx::jobs
