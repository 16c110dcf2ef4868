#pragma once

#include <vector>

#include "case.h"

namespace dgx::matrix {

/// Sizes at which strips, lanes, blocks and groups begin and end (dgx-numerics(7), "Folds").
inline const std::vector<std::int64_t> kSizes = {1, 2, 31, 32, 33, 255, 256, 257, 2047, 2048, 2049, 4095, 4096, 4097};

// The enumerated cases. Names are unique; the stored digests are kept by them.
[[nodiscard]] std::vector<Case> scalar_cases();    ///< every scalar operation, at every size, on every kind of number
[[nodiscard]] std::vector<Case> access_cases();    ///< maps that only read: every form of access
[[nodiscard]] std::vector<Case> fold_cases();      ///< sum, max, argmax: trailing, leading, windowed, of expressions
[[nodiscard]] std::vector<Case> chain_cases();     ///< keyed, running, indirect
[[nodiscard]] std::vector<Case> product_cases();   ///< dots that are matrix products, and what is fused with them
[[nodiscard]] std::vector<Case> window_cases();    ///< dots read through windows: convolutions and their gradients
[[nodiscard]] std::vector<Case> group_cases();     ///< row programs: softmax, norms, updates, and drawn ones of a fixed seed

[[nodiscard]] Case random_window(Random& random);
[[nodiscard]] Case random_row_program(Random& random);
/// A program of a few lines drawn from all that the language has; not every draw passes check_program.
[[nodiscard]] Case random_group(Random& random);
/// One of the families above with drawn sizes, or a random group, of at most `work` scalar operations or so.
[[nodiscard]] Case random_case(Random& random, std::int64_t work);

// Families, for both.
struct ProductForm {
  std::int64_t batch = 1, rows = 1, columns = 1, depth = 1;
  bool left_transposed = false, right_transposed = false;
  std::int64_t left_stride = 1;  ///< every so many-th row of the left side
  bool bias = false;             ///< a map of two steps behind it
};
[[nodiscard]] Case product(const ProductForm& form, Purity purity, Values values);

struct FoldForm {
  kernels::Kind kind = kernels::Kind::kSum;
  Shape outputs, fold;
  bool fold_is_outer = false;  ///< fold indices come first in what is read
  int expression = 0;          ///< 0: what is read; 1: (x - c)^2; 2: e^x times an integer
};
[[nodiscard]] Case fold(const FoldForm& form, Purity purity, Values values);

}  // namespace dgx::matrix
