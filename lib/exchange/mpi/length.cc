#include "mpi/length.h"

#include <cassert>
#include <limits>

namespace dgx::exchange {

Length::Length(std::size_t bytes) : count_(static_cast<int>(bytes)) {
  if (bytes <= kPlainBytes) return;
  const std::size_t units = bytes / kPlainBytes;
  assert(units <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  MPI_Datatype unit = MPI_DATATYPE_NULL, all_units = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(kPlainBytes), MPI_BYTE, &unit);
  MPI_Type_contiguous(static_cast<int>(units), unit, &all_units);
  const int counts[] = {1, static_cast<int>(bytes % kPlainBytes)};
  const MPI_Aint places[] = {0, static_cast<MPI_Aint>(units * kPlainBytes)};
  const MPI_Datatype types[] = {all_units, MPI_BYTE};
  MPI_Type_create_struct(2, counts, places, types, &type_);
  MPI_Type_commit(&type_);
  MPI_Type_free(&unit);
  MPI_Type_free(&all_units);
  count_ = 1;
}

Length::~Length() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace dgx::exchange
