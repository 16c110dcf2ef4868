#pragma once

#include <cstdint>
#include <optional>

#include "dgx/bundle/dataset.h"
#include "dgx/core/result.h"
#include "dgx/program/specs.h"

namespace dgx::jobs {

/// The least and the greatest label that is not ignored; nullopt if y is f32 or all labels are ignored.
[[nodiscard]] std::optional<bundle::IntegerRange> label_range(const bundle::Dataset& data,
                                                              const program::LossSpec& loss);

/// kUsage if a number of y is outside 0 to 1: it is no target of bce.
[[nodiscard]] Status check_probabilities(const bundle::Dataset& data);

/// Completes the spec from the data: classes from the labels, context from the length of a sample. kUsage if
/// these do not follow from the data, or if a token is outside the vocabulary.
[[nodiscard]] Result<program::ModelSpec> fitted(program::ModelSpec spec, const bundle::Dataset& data,
                                                const program::LossSpec& loss);

}  // namespace dgx::jobs
