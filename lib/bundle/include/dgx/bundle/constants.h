#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "dgx/merkle/digests.h"

namespace dgx::bundle {

/// The names and digests of the entries that no step changes: the states of a run, and those of a sample,
/// share one copy of them, and are hashed without reading it again (dgx-bundle(5), CONSTANT ENTRIES).
struct Constants {
  std::vector<merkle::NamedDigest> entries;  ///< ascending by name
  Digest digest;                             ///< the digest of the state of only these entries

  [[nodiscard]] bool empty() const { return entries.empty(); }
  /// The digest of entry `name`; null if it is not constant.
  [[nodiscard]] const Digest* find(std::string_view name) const;
};

/// The entries of `state` with these names, in any order. kUsage if the state lacks one.
[[nodiscard]] Result<Constants> constants_of(const State& state, const merkle::StateDigests& digests,
                                             std::vector<std::string> names);

/// The digests of a state with the entries `known`, whose digests are believed and which `state` may leave
/// out; those of tensors are for the entries in `state`. Cost: that of hashing the others.
[[nodiscard]] Result<merkle::StateDigests> digests_of(const State& state, const Constants& known,
                                                      int threads = 0);

/// RUN/constant-DIGEST12.h5: twelve digits of the constant entries' digest.
[[nodiscard]] std::string constants_path(const std::string& folder, const Digest& digest);

}  // namespace dgx::bundle
