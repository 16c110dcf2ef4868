#pragma once

#include <string>
#include <vector>

#include "dgx/bundle/format.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/tensor.h"

namespace dgx::bundle {

/// Digests of a state, computed by whoever made it: of each entry's tensor in the state's order, and of the whole.
struct StateDigests {
  std::vector<Digest> tensors;
  Digest state;
};

/// Hashes everything: tensor_digest of each entry, on `threads` threads (0: as many as the process may use), and
/// state_digest. kMalformed if the names are not sorted, unique and writable (dgx-bundle(5), "Names").
[[nodiscard]] Result<StateDigests> digests_of(const State& state, int threads = 0);

/// Writes a checkpoint bundle: the numbers of every entry at /state/NAME, each with its digest. `digests` is believed.
/// The same state gives the same bytes. kMalformed as digests_of; errors of AtomicFile::create; kIo, and then nothing
/// is left behind.
[[nodiscard]] Status write_state(const std::string& path, const State& state, const StateDigests& digests,
                                 Clobber clobber, Effort effort = {});

/// A state with the digests its file gives, which `check` may have recomputed.
struct StoredState {
  State state;
  StateDigests digests;
};

/// kMalformed if anything disagrees with dgx-bundle(5); with kDigests also if a digest does, naming the entry.
[[nodiscard]] Result<StoredState> read_state(const std::string& path, Check check = Check::kDigests,
                                             Effort effort = {});

/// The state digest that the file gives: reads no numbers.
[[nodiscard]] Result<Digest> read_state_digest(const std::string& path);

}  // namespace dgx::bundle
