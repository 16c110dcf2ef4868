#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/progress.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"
#include "dgx/crypto/mac.h"

namespace dgx::jobs {

/// $XDG_STATE_HOME/dgx, where dgx keeps what it remembers for its user; nullopt if they have no home.
[[nodiscard]] std::optional<std::string> state_folder();

/// A party's keys for files that are not statements but that it reads back as its own: shards, partial
/// shards, and notes. Such a file is a line and, on a second one, the line's code (dgx-verify(1), "Work
/// keys"): made under the first key available, accepted under any.
class WorkKeys {
 public:
  /// The work keys of a signer alone.
  [[nodiscard]] static WorkKeys of(const crypto::SecretKey& signer);
  /// The work keys of `signer`, of `file` (`--work-key`) and of the user's state folder, as far as they
  /// exist. If none exists, the last is made. kMissing or kMalformed for a file that is not a key,
  /// kCannotCreate if one has to be made and cannot be. A key that others may read or write is used, with a
  /// warning.
  [[nodiscard]] static Result<WorkKeys> find(const crypto::SecretKey* signer,
                                             const std::optional<std::string>& file, Progress& progress);

  /// A file's text: `line`, which must hold no newline, and its code.
  [[nodiscard]] std::string seal(std::string_view line) const;
  /// The line of a file's text. kMalformed if the text is of another form or was cut off, kUnauthorised if
  /// its code was made under none of the keys.
  [[nodiscard]] Result<std::string_view> open(std::string_view text) const;

 private:
  [[nodiscard]] bool made(std::string_view line, const Digest& code) const;

  std::vector<crypto::MacKey> keys_;
};

}  // namespace dgx::jobs
