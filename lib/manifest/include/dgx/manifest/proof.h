#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/json.h"
#include "dgx/manifest/subject.h"
#include "dgx/merkle/openings.h"

namespace dgx::manifest {

/// An RFC 6962 root and the number of its leaves.
struct RootReference {
  Digest root;
  std::int64_t count = 0;
  bool operator==(const RootReference&) const = default;
};

/// The value of a state's entry `loss`, an f32 [], and the opening that leads from it to the state's digest.
struct OpenedLoss {
  float value = 0;  ///< finite
  merkle::EntryOpening entry = {};
};
/// Opens the loss of a state with these entries: kUsage if there is no `loss`, kMalformed unless it is this
/// number.
[[nodiscard]] Result<OpenedLoss> open_loss(std::span<const merkle::NamedDigest> entries, float value);
/// kMalformed unless the value is that state's loss.
[[nodiscard]] Status check_loss(const OpenedLoss& loss, const Digest& state);

/// A solver's commitment to a run: root and count of the digests of its committed states (leaf = 0x04 ‖
/// digest). The digests themselves are in `PROOF.states`, 32 bytes each. A run that diverged ends before the
/// task does: the step from its last state gives one that is not finite, so there is nothing to commit to
/// (dgx-protocol(7), "Segments").
struct Proof {
  static constexpr Kind kKind = Kind::kProof;

  Digest task;
  RootReference states;
  Digest initial;
  Digest final_state;
  std::int64_t steps = 0;  ///< step count of the final state
  OpenedLoss loss;         ///< the final state's
  bool diverged = false;   ///< the next step gives a state that is not finite

  [[nodiscard]] json::Object predicate() const;
  /// Refuses a loss that is not the final state's, and a single state that is not both the first and the
  /// last.
  [[nodiscard]] static Proof read(json::Fields& in);
  [[nodiscard]] std::vector<Subject> subjects() const;
};

inline constexpr std::int64_t kMaxStates = std::int64_t{1} << 24;

/// The diverged end, H("dgx-diverged"): it stands for the state after a diverging step wherever the digest of
/// a segment's end is needed, and is no state's digest.
[[nodiscard]] const Digest& diverged_end();

/// The root over committed states: a proof's tree.
[[nodiscard]] RootReference states_root(std::span<const Digest> states);

/// PROOF.states: 32 raw bytes a state.
[[nodiscard]] std::string encode_states(std::span<const Digest> states);
/// The check that a proof's first and last state are those that it names. Disputes may be about them.
enum class Ends { kChecked, kUnchecked };
/// kMalformed unless `bytes` has exactly `proof.states.count` digests with the proof's root and, if they are
/// checked, the proof's initial state first and its final state last.
[[nodiscard]] Result<std::vector<Digest>> decode_states(std::string_view bytes, const Proof& proof,
                                                        Ends ends = Ends::kChecked);

}  // namespace dgx::manifest
