#pragma once

#include <string>
#include <vector>

#include "disputes.h"

namespace dgx::test {

/// A game that came to an end, for targets that begin with good inputs.
struct Example {
  std::string name;
  protocol::Dispute dispute;
  std::vector<manifest::Signed<manifest::Move>> moves;
};
/// Signed games about small programs that between them have every kind of move and claim.
[[nodiscard]] const std::vector<Example>& examples();

}  // namespace dgx::test
