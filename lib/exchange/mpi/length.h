#pragma once

#include <mpi.h>

#include <cstddef>

namespace dgx::exchange {

/// The longest message that is counted in bytes, and the unit of longer ones. MPI's counts are of type int,
/// enough for 2 GiB; this is less, so that messages of a size that tests can have are of the other form.
inline constexpr std::size_t kPlainBytes = std::size_t{1} << 24;

/// A number of bytes as MPI takes it, a count and a type. A longer message than kPlainBytes is one element of
/// a type of its own, units and a rest, so that it stays one message: its receiver then learns its length,
/// which pieces could not tell from the next message.
class Length {
 public:
  explicit Length(std::size_t bytes);
  Length(const Length&) = delete;
  Length& operator=(const Length&) = delete;
  /// Operations that were started keep the type.
  ~Length();

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace dgx::exchange
