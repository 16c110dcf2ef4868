#pragma once

#include <string>

#include "container.h"
#include "dgx/bundle/state.h"

/// A state within a bundle: in checkpoints and samples alike.
namespace dgx::bundle {

/// Each entry at GROUP/NAME, with its digest. kMalformed if the names cannot be written.
[[nodiscard]] Status put_state(Writer& writer, const std::string& group, const State& state,
                               const StateDigests& digests);

/// All datasets below `group`, as a state of which the file says that it has `digest`.
[[nodiscard]] Result<StoredState> take_state(const Reader& reader, const std::string& group,
                                             const Digest& digest, Check check, const Effort& effort);

}  // namespace dgx::bundle
