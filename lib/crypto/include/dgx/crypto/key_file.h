#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::crypto {

/// Key files are PEM (RFC 7468), in the forms that openssl reads and writes: `PUBLIC KEY` holds a
/// SubjectPublicKeyInfo, `PRIVATE KEY` a PKCS#8 key (RFC 8410), `ENCRYPTED PRIVATE KEY` that key under a
/// passphrase (PBES2, RFC 8018). Keys that ssh-keygen made are read, too, but never written. dgx-key(1), KEY
/// FILES, has the details.

/// No key file is longer.
constexpr std::size_t kMaxKeyFileBytes = 16 * 1024;

[[nodiscard]] std::string public_key_pem(const PublicKey& key);
[[nodiscard]] std::string secret_key_pem(const SecretKey& key);
/// Takes about half a second, on purpose. kUsage if the passphrase is empty, kInternal if there is not enough
/// memory.
[[nodiscard]] Result<std::string> encrypted_secret_key_pem(const SecretKey& key, std::string_view passphrase);

/// Reads one `PUBLIC KEY` block or one line of OpenSSH (`ssh-ed25519 AAAA… comment`), and nothing else;
/// kMalformed otherwise, and for keys that are not valid (valid_public_key).
[[nodiscard]] Result<PublicKey> parse_public_key(std::string_view text);
/// Reads one `PRIVATE KEY`, `ENCRYPTED PRIVATE KEY` or `OPENSSH PRIVATE KEY` block. kMalformed if it is none
/// of these, or a key of another type, which the error names; kUnauthorised if it is encrypted and
/// `passphrase` is absent or wrong, or if OpenSSH encrypted it. A passphrase for a key that is not encrypted
/// is ignored.
[[nodiscard]] Result<SecretKey> parse_secret_key(std::string_view text,
                                                 std::optional<std::string_view> passphrase = {});
/// True if the text begins a public key of any type.
[[nodiscard]] bool is_public_key(std::string_view text);
/// True if the text begins a key that parse_secret_key() opens with a passphrase.
[[nodiscard]] bool is_encrypted_key(std::string_view text);
/// True if the text begins a private key in OpenSSH's own form.
[[nodiscard]] bool is_openssh_private_key(std::string_view text);

/// The same for files; errors name `path`. Private key files get mode 0600.
[[nodiscard]] Result<PublicKey> read_public_key(const std::string& path);
/// The type of a public key file that is not of Ed25519, such as "ssh-rsa" or "rsaEncryption"; empty for
/// any other file, also one that cannot be read.
[[nodiscard]] std::string foreign_public_key(const std::string& path);
[[nodiscard]] Status write_public_key(const std::string& path, const PublicKey& key, Clobber clobber);
/// Writes the key encrypted if there is a passphrase.
[[nodiscard]] Status write_secret_key(const std::string& path, const SecretKey& key,
                                      std::optional<std::string_view> passphrase, Clobber clobber);

}  // namespace dgx::crypto
