#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dgx/core/result.h"

/// The two ends of a model's forward(): which field of the dataset each argument takes, and which of several
/// results counts. The rules are those of dgx-submit(1), "Inputs and outputs".
namespace dgx::lowering {

/// Fields by argument as `--inputs A=F,…` gives them, in the user's order. The argument `None` stands for a
/// field that no input takes.
using InputMap = std::vector<std::pair<std::string, std::string>>;
inline constexpr const char* kNoArgument = "None";

/// Reads `input_ids=x,attention_mask=mask`. kUsage for a part without `=`, an empty name, or an argument that
/// is named twice.
[[nodiscard]] Result<InputMap> parse_input_map(const std::string& text);

/// A tensor that forward() takes.
struct ModelArgument {
  std::string name;
  bool optional = false;  ///< may be left out
};

/// By argument, the number of the field that it takes; nullopt for an optional one that takes none. What
/// `given` does not say: an argument takes the field of its own name, `labels` takes y, and the first of all
/// others takes x.
///
/// kUsage, by name: an argument or field in `given` that is not there, an argument that nothing is for, a
/// field that no argument takes, unless it is y and `loss_takes_y`.
[[nodiscard]] Result<std::vector<std::optional<std::size_t>>> match_inputs(
    const std::vector<ModelArgument>& arguments, const std::vector<std::string>& fields,
    const InputMap& given, bool loss_takes_y);

/// A tensor that forward() returns: its path in the tree of results by keys, "logits" or "past.0", and by
/// positions, "1" or "2.0". Both are empty if forward() returns that tensor alone.
struct ModelResult {
  std::string keys;
  std::string positions;
};

/// The number of the result that `wanted` names, by keys or else by positions; the only one if it is empty.
/// kUsage, with the names that there are, if it is empty and there are several, or if it names none.
[[nodiscard]] Result<std::size_t> choose_result(const std::vector<ModelResult>& results,
                                                const std::string& wanted);

}  // namespace dgx::lowering
