#pragma once

#include <string_view>

#include "dgx/core/result.h"
#include "dgx/protocol/settlement.h"

namespace dgx::protocol {

/// The cost of a new game to its challenger.
struct GameTerms {
  std::int64_t bond = 0;
  bool counted = true;  ///< raises the bond of the next one
};

/// "proof", "verdict" or "audit".
[[nodiscard]] std::string_view word_of(Challenged statement);

/// The terms on which `challenger` may challenge now (dgx-protocol(7), "Games"). kNotAllowed if the statement
/// has fallen already, or the same key has an open game about the same thing.
[[nodiscard]] Result<GameTerms> terms_of(const TaskRecord& record, const manifest::Challenge& challenge,
                                         const Digest& challenger, std::int64_t now);

}  // namespace dgx::protocol
