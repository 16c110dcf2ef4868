#pragma once

#include <cstddef>

#include "dgx/kernels/function_tables.h"

namespace dgx::kernels::cpu {

/// A table of function_tables.h indexed by interval first, not by coefficient. If a register cannot hold a
/// whole table, each lane loads pairs of adjacent numbers from its own row, which is several times faster
/// than gathering.
template <std::size_t Width>
struct alignas(64) FunctionRows {
  double at[16][Width];
};

constexpr FunctionRows<12> make_erf_rows() {
  FunctionRows<12> rows{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t k = 0; k < 12; ++k) rows.at[i][k] = kErfPolynomial[k][i];
  }
  return rows;
}

constexpr FunctionRows<2> make_log_rows() {
  FunctionRows<2> rows{};
  for (std::size_t i = 0; i < 16; ++i) {
    rows.at[i][0] = kLogReciprocal[i];
    rows.at[i][1] = kLogTable[i];
  }
  return rows;
}

inline constexpr FunctionRows<12> kErfRows = make_erf_rows();
inline constexpr FunctionRows<2> kLogRows = make_log_rows();

}  // namespace dgx::kernels::cpu
