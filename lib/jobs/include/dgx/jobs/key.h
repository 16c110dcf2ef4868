#pragma once

#include <map>
#include <optional>
#include <string>

#include "dgx/core/bytes.h"
#include "dgx/core/files.h"
#include "dgx/core/progress.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::jobs {

/// A private key's file and passphrase, as given to every program that signs.
struct KeyFile {
  std::string path;
  std::optional<std::string> passphrase_file;  ///< its first line is the passphrase
};

/// Reads a private key, in a form of dgx-key(1), KEY FILES. If it is encrypted and there is no passphrase
/// file, asks for the passphrase on the process's terminal, up to three times. kUnauthorised if the
/// passphrase is wrong, or missing where there is no terminal; kInterrupted for Ctrl-C.
[[nodiscard]] Result<crypto::SecretKey> read_key(const KeyFile& file);

/// A public key, and the private one if the file has it.
struct EitherKey {
  crypto::PublicKey public_key;
  std::optional<crypto::SecretKey> secret;
};
/// Reads a private or public key; errors as read_key().
[[nodiscard]] Result<EitherKey> read_either_key(const KeyFile& file);

/// The source of a new passphrase: at most one of both, and no passphrase if neither.
struct NewPassphrase {
  std::optional<std::string> file;  ///< its first line is the passphrase
  bool ask = false;  ///< ask on the terminal, twice; kUsage if there is none, or the two differ
};

struct NewKey {
  std::string name;            ///< NAME.pem and NAME.pub.pem are written
  NewPassphrase passphrase;    ///< encrypt the private key
  bool skip_existing = false;  ///< a complete pair is left as it is, and is the result
};
struct NewKeyResult {
  Digest key_id;
  std::string secret_path;
  std::string public_path;
  bool existed = false;  ///< the pair was there, and skip_existing
};
/// Writes a new key pair. kCannotCreate if either file exists and may not be replaced; then neither is
/// touched. If only the private key is there, as a call killed between the two writes leaves it, its public
/// key is written. With skip_existing, kCannotCreate for a pair that does not belong together, and for a
/// private key that is not encrypted although it should be.
[[nodiscard]] Result<NewKeyResult> new_key(const NewKey& options, Clobber clobber);

/// dgx-key passphrase.
struct ChangePassphrase {
  KeyFile key;                        ///< with its present passphrase
  NewPassphrase passphrase;           ///< the new one; neither: write the key unencrypted
  std::optional<std::string> output;  ///< where the key goes; the key's own file unless given
};
struct ChangePassphraseResult {
  Digest key_id;
  std::string path;
  bool encrypted = false;
};
/// Writes a private key with another passphrase, with one, or with none. Its own file is replaced in one
/// step, once the new one is durable; of a link, the file that it leads to. kUsage for a key on standard
/// input or in OpenSSH's form without an output: ssh does not read what would replace it.
[[nodiscard]] Result<ChangePassphraseResult> change_passphrase(const ChangePassphrase& options,
                                                               Clobber clobber);

/// The id of the key in a private or public key file.
[[nodiscard]] Result<Digest> id_of_key(const KeyFile& file);

/// The names of the keys that `trust` (--trust) gives, by key id in hex; `warned` is told which files of it
/// are passed over. Errors of manifest::Trust::load.
[[nodiscard]] Result<std::map<std::string, std::string>> names_of_trust(const std::string& trust,
                                                                        Progress& warned);

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
