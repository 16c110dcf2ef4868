#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dgx/bundle/dataset.h"
#include "dgx/core/bulk.h"
#include "dgx/core/result.h"

/// Changes of samples on their way from a source to a bundle: functions on fields, which work in pieces, so
/// that a field in a file stays there. dgx-pack(1) says in which order they are applied.
namespace dgx::bundle {

/// Gives each sample the shape `sample`. kUsage if that is not a shape, or has another count of numbers.
[[nodiscard]] Status reshape_samples(const Shape& sample, BulkTensor& x);

/// A part of the samples: those at positions [begin, begin + count).
struct Rows {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  /// Maps a position to the index of its sample; empty: they are the same.
  std::function<std::int64_t(std::int64_t)> order = {};
};

/// The rows that are left of `samples` after leaving out the first `skip` and keeping only the first `first`
/// of the others. kUsage if nothing is left, or fewer than `first`.
[[nodiscard]] Result<Rows> choose_rows(std::int64_t samples, std::int64_t skip,
                                       std::optional<std::int64_t> first);

/// Copies rows: row i of the result is sample order(begin + i). All must exist: asserted.
[[nodiscard]] Result<BulkTensor> take_rows(const BulkTensor& field, const Rows& rows,
                                           std::uint64_t bulk_bytes = kBulkBytes);

/// The number of channels of samples of this shape: dimension 1 if there are 2, 4 or 5 dimensions, samples
/// first; else 1.
[[nodiscard]] std::int64_t channels_of(const Shape& x);

/// The scale and shift that give each channel mean 0 and standard deviation 1: dgx-pack(1), "--normalise".
/// kMalformed if they would not be finite.
[[nodiscard]] Result<std::vector<Affine>> normalising(const BulkTensor& x);

/// Applies a scale and a shift to each channel, as one fma in binary32; there must be one for each
/// (asserted). kUsage if one is not finite or a scale is 0.
[[nodiscard]] Result<BulkTensor> scaled(const BulkTensor& x, const std::vector<Affine>& channels,
                                        std::uint64_t bulk_bytes = kBulkBytes);

/// Statistics of a field's numbers; the mean is summed in binary64 in their order.
struct Summary {
  double least = 0;
  double greatest = 0;
  double mean = 0;
};
/// The field has at least one number: asserted.
[[nodiscard]] Result<Summary> summary_of(const BulkTensor& field);

/// Counts of the samples of class 0, 1, …, also of named classes that have none. Empty if y is not one
/// integer from 0 to 65,535 per sample.
[[nodiscard]] Result<std::vector<std::int64_t>> class_counts(const Dataset& data);

}  // namespace dgx::bundle
