#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/files.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::crypto {

/// Key files are PEM (RFC 7468) that openssl reads: `PUBLIC KEY` holds a SubjectPublicKeyInfo, `PRIVATE KEY`
/// a PKCS#8 key without attributes (RFC 8410). A passphrase-protected private key has a format of dgx's own,
/// `DGX ENCRYPTED PRIVATE KEY`:
///
///     u8 version = 1 ‖ u8 passes ‖ u32 memory in KiB ‖ salt[16] ‖ nonce[24] ‖ box[48]
///
/// where box is libsodium's crypto_secretbox (XSalsa20-Poly1305) of the 32-byte seed under
/// Argon2id(passphrase, salt). openssl's own encrypted PKCS#8 is not used: it derives keys by PBKDF2 or
/// scrypt at most.

/// The cost of one guess: 2 passes over 64 MiB, or 3 over 256 MiB (about 0.1 and 0.7 s).
enum class PassphraseCost { kInteractive, kModerate };

[[nodiscard]] std::string public_key_pem(const PublicKey& key);
[[nodiscard]] std::string secret_key_pem(const SecretKey& key);
/// kUsage if the passphrase is empty, kInternal if there is not enough memory.
[[nodiscard]] Result<std::string> encrypted_secret_key_pem(const SecretKey& key, std::string_view passphrase,
                                                           PassphraseCost cost = PassphraseCost::kModerate);

/// Reads one `PUBLIC KEY` block and nothing else; kMalformed otherwise, and for keys that are not valid
/// (valid_public_key).
[[nodiscard]] Result<PublicKey> parse_public_key(std::string_view pem);
/// Reads one `PRIVATE KEY` or `DGX ENCRYPTED PRIVATE KEY` block. kMalformed if it is neither; kUnauthorised
/// if it is encrypted and `passphrase` is absent or wrong. A passphrase for a key that is not encrypted is
/// ignored.
[[nodiscard]] Result<SecretKey> parse_secret_key(std::string_view pem,
                                                 std::optional<std::string_view> passphrase = {});
/// True if the text begins an encrypted key, for which a program asks the passphrase.
[[nodiscard]] bool is_encrypted_key(std::string_view pem);

/// The same for files; errors name `path`. Private key files get mode 0600.
[[nodiscard]] Result<PublicKey> read_public_key(const std::string& path);
[[nodiscard]] Result<SecretKey> read_secret_key(const std::string& path,
                                                std::optional<std::string_view> passphrase = {});
[[nodiscard]] Status write_public_key(const std::string& path, const PublicKey& key, Clobber clobber);
/// Writes the key encrypted if there is a passphrase.
[[nodiscard]] Status write_secret_key(const std::string& path, const SecretKey& key,
                                      std::optional<std::string_view> passphrase, Clobber clobber);

}  // namespace dgx::crypto
