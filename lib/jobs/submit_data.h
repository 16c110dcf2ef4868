#pragma once

#include <cstdint>
#include <optional>

#include "dgx/bundle/dataset.h"
#include "dgx/core/result.h"
#include "dgx/program/aten.h"
#include "dgx/program/lower.h"
#include "dgx/program/specs.h"

namespace dgx::jobs {

/// Type and sample shape of a dataset's x or y.
[[nodiscard]] program::DatasetField field_of(const TensorView& tensor);

/// The least and the greatest label that counts; nullopt if y is f32 or no label counts.
[[nodiscard]] std::optional<bundle::IntegerRange> label_range(const bundle::Dataset& data, const program::LossSpec& loss);

/// The spec with what it leaves to the data: classes by the labels, context by the length of a sample. kUsage if that does not
/// follow, or if a token is outside the vocabulary.
[[nodiscard]] Result<program::ModelSpec> fitted(program::ModelSpec spec, const bundle::Dataset& data,
                                                const program::LossSpec& loss);

/// kUsage if a label that counts is none of the output's classes: it would train silently on a fill.
[[nodiscard]] Status check_labels(const bundle::Dataset& data, const program::CapturedGraph& graph,
                                  const program::LossSpec& loss, std::int64_t batch);

}  // namespace dgx::jobs
