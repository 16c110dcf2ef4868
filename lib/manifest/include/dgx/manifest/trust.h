#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::manifest {

/// The identities that a user accepts (`--trust FILE|DIR`): a public key file, or a folder of `*.pub.pem` and
/// `*.pub`. Without any, every statement is only its signer's claim, and the output says so.
///
/// Each has a name for people, that of their file without ".pub.pem" or ".pub": a local nickname, which no
/// statement can choose.
class Trust {
 public:
  /// Trusts nobody and refuses nobody.
  Trust() = default;
  /// In a folder, public keys of other types than Ed25519 are passed over: they could not have signed a
  /// statement. kMissing if the path does not exist, kMalformed for a file that is not a public key, in a
  /// folder, too: it may be one that was damaged. kUsage for a folder without keys of Ed25519.
  [[nodiscard]] static Result<Trust> load(const std::string& path);

  /// The files that load() passed over, such as "people/bob.pub: is an ssh-rsa key".
  [[nodiscard]] const std::vector<std::string>& passed_over() const { return passed_over_; }

  [[nodiscard]] bool given() const { return given_; }
  void add(const Digest& key_id, std::string name = {});
  /// Names by key id: at most kMaxName bytes of printable ASCII of the file's, another byte as '?', and the
  /// first digits of the key where another key has that name; empty for a key that was added without one.
  [[nodiscard]] const std::map<Digest, std::string>& names() const { return names_; }
  static constexpr std::size_t kMaxName = 40;
  /// "trusted" or "self-asserted"; kUnauthorised, naming `what`, if identities were given and this is not
  /// among them.
  [[nodiscard]] Result<std::string_view> check(const Digest& key_id, std::string_view what) const;

 private:
  bool given_ = false;
  std::map<Digest, std::string> names_;
  std::vector<std::string> passed_over_;
};

/// The identities for one call: named by the path of `--trust`, if it is given, and loaded when the first
/// signer is checked; or loaded already, by who checks many. A view: what it is made of outlives it.
class TrustView {
 public:
  TrustView(std::nullopt_t) {}                                         // NOLINT: implicit by design
  TrustView(const std::optional<std::string>& path) : path_(&path) {}  // NOLINT: as above
  TrustView(const Trust& loaded) : loaded_(&loaded) {}                 // NOLINT: as above
  /// As Trust::check(); also errors of Trust::load().
  [[nodiscard]] Status check(const Digest& key_id, std::string_view what) const;

 private:
  const std::optional<std::string>* path_ = nullptr;
  const Trust* loaded_ = nullptr;
};

}  // namespace dgx::manifest
