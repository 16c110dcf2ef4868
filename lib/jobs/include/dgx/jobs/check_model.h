#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/job_context.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

/// A tensor of a model file that is not the state's, and in words how it differs.
struct TensorDifference {
  std::string tensor;
  std::string difference;
};

/// A model file compared with a committed state.
struct ModelComparison {
  std::string_view form;  ///< "safetensors", "npz" or "state"
  bool averages = false;  ///< the file says that it has the parameters' averages
  Digest state;           ///< the state to which the entries that the file states lead
  std::int64_t tensors = 0;
  std::int64_t differing = 0;
  std::vector<TensorDifference> differences;  ///< the first kMostDifferences of them
  bool same = false;
};
inline constexpr std::size_t kMostDifferences = 20;

/// Compares a received model with the state that somebody committed to. `same` if and only if `state` is that
/// one, and the file's tensors are bit by bit its entries: those of the model, or as the file says the
/// averages of its parameters, for what export_model() wrote as .safetensors or .npz, all of them for a state
/// bundle. Tensors are compared only if `state` is the committed one. The content decides what the file is.
///
/// A state's digest covers optimiser, step and loss, too, which an exported model does not hold. So an export
/// has the digests of all entries (dgx-inspect(1), "export"): false ones do not lead to the committed state.
/// kInconclusive for a model that does not have them; kMissing, kIo, kMalformed.
[[nodiscard]] Result<ModelComparison> compare_model(const std::string& path, const Digest& committed,
                                                    int threads);

struct CheckModelOptions {
  std::string model;
  std::string proof;
  bool averages = false;  ///< the file is to have the parameters' averages, not the parameters
};
struct CheckModelResult {
  ModelComparison found;
  Digest proof;               ///< the statement's id
  Digest signer;              ///< key id
  std::string_view identity;  ///< "trusted" or "self-asserted"
  Digest final_state;
  std::int64_t steps = 0;      ///< step of the final state
  bool is_other_kind = false;  ///< the file has averages, or has none, against the options
};
/// compare_model() with the final state of a proof, whose signature is checked; kUnauthorised for a signer
/// whom context.trust does not name.
[[nodiscard]] Result<CheckModelResult> check_model(const CheckModelOptions& options,
                                                   const JobContext& context);

}  // namespace dgx::jobs
