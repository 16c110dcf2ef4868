#pragma once

#include <set>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::manifest {

/// The identities that a user accepts (`--trust FILE|DIR`): a public key file, or a folder of `*.pub.pem`.
/// Without any, every statement is only its signer's claim, and the output says so.
class Trust {
 public:
  /// Trusts nobody and refuses nobody.
  Trust() = default;
  /// kMissing if the path does not exist, kMalformed for a file that is not a public key, kUsage for a folder
  /// without keys.
  [[nodiscard]] static Result<Trust> load(const std::string& path);

  [[nodiscard]] bool given() const { return given_; }
  void add(const Digest& key_id);
  /// "trusted" or "self-asserted"; kUnauthorised, naming `what`, if identities were given and this is not
  /// among them.
  [[nodiscard]] Result<std::string_view> check(const Digest& key_id, std::string_view what) const;

 private:
  bool given_ = false;
  std::set<Digest> key_ids_;
};

}  // namespace dgx::manifest
