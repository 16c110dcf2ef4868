#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "container.h"
#include "dgx/bundle/constants.h"
#include "dgx/bundle/state.h"

namespace dgx::bundle {

/// The constant entries of the states that one reader reads, read and checked when the first of them needs
/// them, then kept in memory.
class SharedEntries {
 public:
  /// Those of states in `folder`, by the digest that the states name. kMissing if the file is not there;
  /// kMalformed if it has another digest or, with kDigests, other numbers.
  [[nodiscard]] Result<std::shared_ptr<const StoredState>> of_folder(const std::string& folder,
                                                                     const Digest& digest, Check check,
                                                                     const Effort& effort);
  /// Those of a sample, whose reader is always the same. Nothing states their digest as a state.
  [[nodiscard]] Result<std::shared_ptr<const StoredState>> of_group(const Reader& reader,
                                                                    const std::string& group, Check check,
                                                                    const Effort& effort);

 private:
  std::shared_ptr<const StoredState> keep(StoredState stored, Check check);

  std::mutex mutex_;
  std::shared_ptr<const StoredState> stored_;
  bool checked_ = false;
};

/// Writes the constant entries of `state` to constants_path(). An older file of that name is replaced.
[[nodiscard]] Status write_constants(const std::string& folder, const State& state,
                                     const StateDigests& digests, const Constants& constants,
                                     const Effort& effort);

/// The names and digests that the file at constants_path() states, without reading its numbers. Errors of
/// SharedEntries::of_folder.
[[nodiscard]] Result<Constants> stated_constants(const std::string& folder, const Digest& digest);

/// read_state(), for several states that share their constant entries.
[[nodiscard]] Result<StoredState> read_state(const std::string& path, Check check, const Effort& effort,
                                             SharedEntries& shared);

/// The digest of the constant entries that the state bundle leaves out, if it does.
[[nodiscard]] Result<std::optional<Digest>> stated_constant(const std::string& path);

}  // namespace dgx::bundle
