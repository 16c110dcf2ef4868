#pragma once

#include <set>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::manifest {

/// The identities a user accepts (`--trust FILE|DIR`): a public key file, or a folder of `*.pub.pem`. Without
/// one every statement is its signer's own claim, and the output says so.
class Trust {
 public:
  /// Trusts nobody and refuses nobody.
  Trust() = default;
  /// kMissing if there is nothing there, kMalformed for a file that is no public key, kUsage for a folder
  /// without keys.
  [[nodiscard]] static Result<Trust> load(const std::string& path);

  [[nodiscard]] bool given() const { return given_; }
  void add(const Digest& key_id);
  /// "trusted" or "self-asserted"; kUnauthorised, naming `what`, if identities were given and this is none of
  /// them.
  [[nodiscard]] Result<std::string_view> check(const Digest& key_id, std::string_view what) const;

 private:
  bool given_ = false;
  std::set<Digest> key_ids_;
};

}  // namespace dgx::manifest
