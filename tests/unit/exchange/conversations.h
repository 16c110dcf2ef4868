#pragma once

#include <string>
#include <vector>

#include "dgx/exchange/exchange.h"

namespace dgx::tests {

/// A talk that ranks of any form must be able to have with each other. All ranks hold it, each with its own
/// Exchange; hold() returns what was wrong at this rank, or nothing. It calls no assertion, as it may run on
/// any thread.
struct Conversation {
  const char* name;
  std::string (*hold)(exchange::Exchange& exchange);
};

/// All of them; each begins and ends with nothing under way.
[[nodiscard]] const std::vector<Conversation>& conversations();

}  // namespace dgx::tests
