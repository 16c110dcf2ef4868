#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "dgx/kernels/primitive.h"
#include "dgx/program/program.h"

namespace dgx::program {

/// A line's role in the account of work, told from its form alone.
enum class WorkRole : std::uint8_t {
  kInput,          ///< nothing to compute
  kMatrixProduct,  ///< a dot of two accesses that both vary
  kColumnSum,      ///< a dot with an access that does not vary
  kReduction,      ///< sum, max, argmax
  kChain,
  kMap,   ///< a map with steps
  kCopy,  ///< a map without steps
};
inline constexpr std::size_t kWorkRoleCount = 7;
[[nodiscard]] std::string_view name_of(WorkRole role);  ///< "matrix product", …
[[nodiscard]] WorkRole role_of(const kernels::Primitive& primitive);

/// Work of one run of a program: every element of every line once, counted as kernels::count_operations does
/// (both branches of a select). Saturates at 2^62.
struct Cost {
  std::array<std::int64_t, kernels::kScalarOpCount> operations{};  ///< indexed by kernels::ScalarOp
  std::array<std::int64_t, kWorkRoleCount> by_role{};              ///< scalar operations by WorkRole
  std::int64_t total_operations = 0;
  std::int64_t matrix_product_flop = 0;  ///< 2 · outputs · fold positions of matrix products
  std::int64_t state_bytes = 0;          ///< size of all state entries
  std::int64_t constant_bytes = 0;       ///< size of those that no step changes (constant_entries())
  std::int64_t value_bytes = 0;          ///< size of all values, inputs included
};
[[nodiscard]] Cost cost_of(const Program& program);

}  // namespace dgx::program
