#pragma once

#include <string>

#include "container.h"
#include "dgx/bundle/state.h"

/// A state within a bundle, in checkpoints and samples alike.
namespace dgx::bundle {

/// Writes each entry at GROUP/NAME, with its digest. kMalformed if a name cannot be written.
[[nodiscard]] Status put_state(Writer& writer, const std::string& group, const State& state,
                               const StateDigests& digests);

/// Reads all datasets below `group` as a state, for which the file states `digest`.
[[nodiscard]] Result<StoredState> take_state(const Reader& reader, const std::string& group,
                                             const Digest& digest, Check check, const Effort& effort);

}  // namespace dgx::bundle
