#pragma once

#include <memory>

#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"

namespace dgx::exchange {

/// The name under which libdgx_mpi.so exports its OpenMpiFunction, which starts MPI, once in a process, and
/// gives the Exchange of this process: a rank is one that mpirun or srun started, and a process that neither
/// did is the only one. Its destruction ends MPI and waits until every rank has got that far, so one that
/// fails must give up instead. kInternal if MPI cannot start, was started before, or has fewer tags than
/// kMaxTag; where MPI itself notices that, it ends the process. `interface` is the caller's
/// kExchangeInterface (interface.h, made by CMake: a digest of this header and of those it rests on). A
/// module built for another interface returns false and touches nothing.
///
/// The module must be opened with RTLD_GLOBAL: MPI opens plug-ins of its own, which may look for MPI's
/// symbols among those of all.
inline constexpr const char* kOpenMpiSymbol = "dgx_open_mpi";
using OpenMpiFunction = bool (*)(const char* interface, Result<std::unique_ptr<Exchange>>* out);

}  // namespace dgx::exchange
