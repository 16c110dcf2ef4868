#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/core/json.h"

namespace dgx::test {

/// A transcript of tests/vectors/dispute.json, which a second implementation has judged.
struct DisputeVector {
  std::string name;
  std::string transcript;
  bool refused = false;                ///< it is none
  std::optional<json::Object> ruling;  ///< without words and parties; none: the game goes on
};
/// Ends the process if the file cannot be read.
[[nodiscard]] std::vector<DisputeVector> dispute_vectors(const std::string& path);

}  // namespace dgx::test
