#pragma once

#include "dgx/core/result.h"
#include "dgx/protocol/settlement.h"

namespace dgx::protocol {

/// What a new game costs its challenger.
struct GameTerms {
  std::int64_t bond = 0;
  bool counted = true;  ///< makes the next one dearer
};

/// On what terms `challenger` may challenge now (dgx-protocol(7), "Games"). kUsage if the statement has
/// fallen already, or the same key has a game about the same thing open.
[[nodiscard]] Result<GameTerms> terms_of(const TaskRecord& record, const manifest::Challenge& challenge,
                                         const Digest& challenger, std::int64_t now);

}  // namespace dgx::protocol
