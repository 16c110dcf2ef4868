#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"
#include "dgx/crypto/secret_bytes.h"

namespace dgx::crypto {

/// Private keys in DER: PKCS#8 (RFC 5208, RFC 8410) and encrypted PKCS#8 with PBES2 (RFC 8018, RFC 7914), in
/// the forms that dgx-key(1), KEY FILES, lists.

[[nodiscard]] SecretBytes to_pkcs8(const SecretKey& key);
/// kMalformed for anything but an Ed25519 key; a key of another type is named by its type.
[[nodiscard]] Result<SecretKey> from_pkcs8(ByteView der);

/// The type of a public key in DER (SubjectPublicKeyInfo) that is not of Ed25519, by libcrypto's name or its
/// numbers; empty for one of Ed25519, and for what is no such key.
[[nodiscard]] std::string foreign_key_type(ByteView der);

/// Encrypts by AES-256-CBC under a key that scrypt derives in 16 MiB of memory, in about half a second.
/// kUsage for an empty passphrase, kInternal if there is not enough memory.
[[nodiscard]] Result<Bytes> to_encrypted_pkcs8(const SecretKey& key, std::string_view passphrase);
/// kMalformed as from_pkcs8(), for another cipher or derivation, and for one that would take more than 32 MiB
/// or about ten seconds, before either is spent. kUnauthorised if the passphrase is absent or wrong.
[[nodiscard]] Result<SecretKey> from_encrypted_pkcs8(ByteView der,
                                                     std::optional<std::string_view> passphrase);

}  // namespace dgx::crypto
