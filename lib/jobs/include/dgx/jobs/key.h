#pragma once

#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::jobs {

/// Where a private key is: what every program that signs is given.
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
/// kCannotCreate if either file exists and may not be replaced; then neither is touched. Where only the private key is
/// there, as a call that was killed between the two leaves it, its public key is written.
[[nodiscard]] Result<NewKeyResult> new_key(const NewKey& options, Clobber clobber);

/// The id of the key in a private or public key file.
[[nodiscard]] Result<Digest> id_of_key(const KeyFile& file);

/// The kind of a file to be signed: any JSON, or a statement, whose signature binds its signer's money.
enum class Signing : std::uint8_t { kJson, kStatement };

/// An envelope, with its newline, around a file of canonical JSON ("-": standard input); one newline at its end is not part
/// of it. A statement is opened first: kMalformed if a reader would refuse it, kUnauthorised if its signer is another
/// key. kUsage for JSON that says it is one, so that nobody signs a stranger's withdrawal unawares.
[[nodiscard]] Result<std::string> sign_file(const std::string& path, const KeyFile& key, Signing what);

/// The payload of the envelope in a file, without a newline. kUnauthorised unless the key signed it.
[[nodiscard]] Result<std::string> open_file(const std::string& path, const std::string& public_key_path);

}  // namespace dgx::jobs
