#pragma once

#include <cstdint>
#include <optional>

#include "dgx/bundle/dataset.h"
#include "dgx/jobs/submit.h"
#include "dgx/program/cost.h"
#include "dgx/program/cut_spec.h"

namespace dgx::jobs {

/// Reads --cut, which must be given. kUsage if it is none of `model`; null: a file.
[[nodiscard]] Result<program::CutText> parse_cut(const SubmitOptions& options,
                                                 const std::optional<program::ModelSpec>& model);

/// The cut of a task of so many steps; nullopt: it has none. Unless the text says how many steps are plain,
/// each sample is so once. kUsage if all steps are, or if the data have a field of a name that a cut needs.
[[nodiscard]] Result<std::optional<program::CutSpec>> fixed_cut(const std::optional<program::CutText>& text,
                                                                const bundle::Dataset& data,
                                                                std::int64_t batch, std::int64_t steps);

/// kUsage, with both numbers, if the memory of this process does not hold a state.
[[nodiscard]] Status check_state_fits(const program::Cost& cost);

}  // namespace dgx::jobs
