#pragma once

#include <map>
#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::jobs {

/// A private key's file and passphrase, as given to every program that signs.
struct KeyFile {
  std::string path;
  std::optional<std::string> passphrase_file;  ///< its first line is the passphrase
};

/// Reads a private key. kUnauthorised if it is encrypted and the passphrase is missing or wrong.
[[nodiscard]] Result<crypto::SecretKey> read_key(const KeyFile& file);

struct NewKey {
  std::string name;                            ///< NAME.pem and NAME.pub.pem are written
  std::optional<std::string> passphrase_file;  ///< encrypt the private key
};
struct NewKeyResult {
  Digest key_id;
  std::string secret_path;
  std::string public_path;
};
/// Writes a new key pair. kCannotCreate if either file exists and may not be replaced; then neither is
/// touched. If only the private key is there, as a call killed between the two writes leaves it, its public
/// key is written.
[[nodiscard]] Result<NewKeyResult> new_key(const NewKey& options, Clobber clobber);

/// The id of the key in a private or public key file.
[[nodiscard]] Result<Digest> id_of_key(const KeyFile& file);

/// The names of the keys that `trust` (--trust) gives, by key id in hex. Errors of manifest::Trust::load.
[[nodiscard]] Result<std::map<std::string, std::string>> names_of_trust(const std::string& trust);

/// The kind of file to sign: any JSON, or a statement, whose signature binds its signer's money.
enum class Signing : std::uint8_t { kJson, kStatement };

/// Signs a file of canonical JSON ("-": standard input; a final newline is not signed) and returns the
/// envelope, newline included. A statement's envelope is opened before it is returned: kMalformed if a reader
/// would refuse it, kUnauthorised if its signer is another key. kUsage for kJson content that claims to be a
/// statement, so that a stranger's withdrawal is not signed unawares.
[[nodiscard]] Result<std::string> sign_file(const std::string& path, const KeyFile& key, Signing what);

/// The payload of the envelope in a file, without a newline. kUnauthorised unless the key signed it.
[[nodiscard]] Result<std::string> open_file(const std::string& path, const std::string& public_key_path);

}  // namespace dgx::jobs
