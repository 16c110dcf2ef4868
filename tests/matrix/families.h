#pragma once

#include <vector>

#include "case.h"

namespace dgx::matrix {

/// Sizes around the limits of strips, lanes, blocks and groups (dgx-numerics(7), "Folds").
inline const std::vector<std::int64_t> kSizes = {1,   2,    31,   32,   33,   255,  256,
                                                 257, 2047, 2048, 2049, 4095, 4096, 4097};

// The enumerated cases. Names are unique and identify the stored digests.
/// Every scalar operation, at every size, on every kind of number.
[[nodiscard]] std::vector<Case> scalar_cases();
[[nodiscard]] std::vector<Case> access_cases();  ///< maps that only read: every form of access
/// Sum, max, argmax: trailing, leading, windowed, of expressions.
[[nodiscard]] std::vector<Case> fold_cases();
[[nodiscard]] std::vector<Case> chain_cases();  ///< keyed, running, indirect
/// Dots that are matrix products, and what is fused with them.
[[nodiscard]] std::vector<Case> product_cases();
/// Dots read through windows: convolutions and their gradients.
[[nodiscard]] std::vector<Case> window_cases();
/// Row programs: softmax, norms, updates; drawn ones, fixed seed.
[[nodiscard]] std::vector<Case> group_cases();

[[nodiscard]] Case random_window(Random& random);
[[nodiscard]] Case random_row_program(Random& random);
/// A random program of a few lines with any feature of the language; not every one passes check_program.
[[nodiscard]] Case random_group(Random& random);
/// One of the families above with drawn sizes, or a random group, of roughly at most `work` scalar
/// operations.
[[nodiscard]] Case random_case(Random& random, std::int64_t work);

// Families used by both the enumerated and the random cases.
struct ProductForm {
  std::int64_t batch = 1, rows = 1, columns = 1, depth = 1;
  bool left_transposed = false, right_transposed = false;
  std::int64_t left_stride = 1;  ///< takes every left_stride-th row of the left side
  bool bias = false;             ///< adds a map of two steps after it
};
[[nodiscard]] Case product(const ProductForm& form, Purity purity, Values values);

struct FoldForm {
  kernels::Kind kind = kernels::Kind::kSum;
  Shape outputs, fold;
  bool fold_is_outer = false;  ///< fold indices come first in the value read
  int expression = 0;          ///< folds 0: the value read; 1: (x - c)^2; 2: e^x times an integer
};
[[nodiscard]] Case fold(const FoldForm& form, Purity purity, Values values);

}  // namespace dgx::matrix
