#pragma once

#include <string>

#include "dgx/bundle/dataset.h"
#include "dgx/jobs/submit.h"
#include "dgx/lowering/lower.h"

namespace dgx::jobs {

/// Type and sample shape of every field of the data.
[[nodiscard]] std::map<std::string, lowering::DatasetField, std::less<>> fields_of(
    const bundle::Dataset& data);

/// A model's pass in training and in evaluation on one batch.
struct CapturedModel {
  lowering::CapturedGraph training;
  lowering::CapturedGraph evaluation;
};

/// Captures `model`, a file or a complete spec, with the inputs, types and output that the options name.
/// Errors of CaptureBackend::capture(); kUsage for options that a built-in model does not take, fields that
/// are not there, and a file for evaluation that is of another model.
[[nodiscard]] Result<CapturedModel> capture_model(const SubmitOptions& options, const std::string& model,
                                                  const lowering::TrainingRecipe& recipe);

}  // namespace dgx::jobs
