#pragma once

#include <string>
#include <vector>

#include "disputes.h"

namespace dgx::test {

/// A game that came to an end, for fuzz targets that start from valid inputs.
struct Example {
  std::string name;
  protocol::Dispute dispute;
  std::vector<manifest::Signed<manifest::Move>> moves;
};
/// Signed games about small programs that together contain every kind of move and claim.
[[nodiscard]] const std::vector<Example>& examples();

}  // namespace dgx::test
