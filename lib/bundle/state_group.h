#pragma once

#include <string>

#include "container.h"
#include "dgx/bundle/constants.h"
#include "dgx/bundle/state.h"

/// A state within a bundle, in checkpoints and samples alike.
namespace dgx::bundle {

/// kMalformed unless the names are sorted, unique, and can all be written.
[[nodiscard]] Status check_state(const State& state);

/// Writes each entry that is not in `constants` at GROUP/NAME, with its digest. kMalformed as check_state.
[[nodiscard]] Status put_state(Writer& writer, const std::string& group, const State& state,
                               const StateDigests& digests, const Constants& constants = {});
/// Writes the other entries, those in `constants`.
[[nodiscard]] Status put_constants(Writer& writer, const std::string& group, const State& state,
                                   const StateDigests& digests, const Constants& constants);

/// Reads all datasets below `group`, each with the digest that the file states for it. Checks none of them;
/// the state's digest is left as it is.
[[nodiscard]] Result<StoredState> take_entries(const Reader& reader, const std::string& group,
                                               const Effort& effort);
/// kMalformed, naming it, if an entry does not have its digest.
[[nodiscard]] Status compare_tensors(const StoredState& stored, int threads);

/// Reads all datasets below `group` as a state, for which the file states `digest`. The entries of `shared`,
/// if it is not null, belong to the state; their digests are believed. With kDigests all others are checked,
/// and the state's.
[[nodiscard]] Result<StoredState> take_state(const Reader& reader, const std::string& group,
                                             const Digest& digest, Check check, const Effort& effort,
                                             const StoredState* shared = nullptr);

}  // namespace dgx::bundle
