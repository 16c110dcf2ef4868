#pragma once

#include <string>
#include <vector>

#include "dgx/bundle/constants.h"
#include "dgx/bundle/format.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"

namespace dgx::bundle {

using merkle::StateDigests;

/// merkle::state_digests() of a state that a bundle can hold: kMalformed if the names are not sorted, unique,
/// and paths of printable ASCII (dgx-bundle(5), "Names").
[[nodiscard]] Result<StateDigests> digests_of(const State& state, int threads = 0);

/// Writes a checkpoint bundle: the numbers of every entry at /state/NAME, each with its digest. `digests` is
/// believed. The same state gives the same bytes. kMalformed as digests_of; errors of AtomicFile; kIo, and
/// then nothing is left behind.
[[nodiscard]] Status write_state(AtomicFile target, const State& state, const StateDigests& digests,
                                 Effort effort = {}, Storage storage = Storage::kCompressed);
/// To a target that was not created before the work.
[[nodiscard]] Status write_state(const std::string& path, const State& state, const StateDigests& digests,
                                 Clobber clobber, Effort effort = {}, Storage storage = Storage::kCompressed);

/// Writes a bundle that leaves out the entries in `constants` (all of the state's if there are none): whoever
/// reads it finds them in the file constants_path() of the same folder, which must be there.
[[nodiscard]] Status write_state(const std::string& path, const State& state, const StateDigests& digests,
                                 const Constants& constants, Clobber clobber, Effort effort = {});

/// A state with the digests stated in its file, which `check` may have recomputed.
struct StoredState {
  State state;
  StateDigests digests;
};

/// Reads a checkpoint bundle, and the constant entries that it leaves out. kMalformed if anything disagrees
/// with dgx-bundle(5); with kDigests also if a digest does, naming the entry. Errors name the file with the
/// constant entries if they are its.
[[nodiscard]] Result<StoredState> read_state(const std::string& path, Check check = Check::kDigests,
                                             Effort effort = {});

/// The digest that a checkpoint bundle states, without reading its numbers. Same errors.
[[nodiscard]] Result<Digest> stated_digest(const std::string& path);

}  // namespace dgx::bundle
