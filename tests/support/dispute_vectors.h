#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dgx/core/json.h"

namespace dgx::test {

/// A transcript of tests/vectors/dispute.json, already judged by a second implementation.
struct DisputeVector {
  std::string name;
  std::string transcript;
  bool refused = false;                ///< it is not a valid transcript
  std::optional<json::Object> ruling;  ///< without words and parties; none: the game goes on
};
/// Ends the process if the file cannot be read.
[[nodiscard]] std::vector<DisputeVector> dispute_vectors(const std::string& path);

}  // namespace dgx::test
