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

/// Those in messages of rows: each rank sends some to all, of all densities; and what is no such message is
/// refused.
[[nodiscard]] std::string send_rows(exchange::Exchange& exchange);
[[nodiscard]] std::string refuse_wrong_rows(exchange::Exchange& exchange);

}  // namespace dgx::tests
