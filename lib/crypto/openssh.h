#pragma once

#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/crypto/ed25519.h"

namespace dgx::crypto {

/// Ed25519 keys as ssh-keygen writes them (RFC 8709; PROTOCOL.key of OpenSSH).

/// True if the text begins as a public key of OpenSSH does: with a type of key, such as "ssh-rsa", and a
/// space.
[[nodiscard]] bool is_openssh_public_key(std::string_view text);
/// Reads one line: "ssh-ed25519", the key in base64, and a comment or none. kMalformed otherwise; a key of
/// another type is named by its type.
[[nodiscard]] Result<PublicKey> parse_openssh_public_key(std::string_view text);

/// The type that a public key of OpenSSH begins with; empty if it is ssh-ed25519, or the text is no such key.
[[nodiscard]] std::string foreign_openssh_type(std::string_view text);

/// Reads the content of an OPENSSH PRIVATE KEY block. kMalformed, with the byte, for anything but one Ed25519
/// key whose copies of the public key all belong to it; kUnauthorised, with a hint, if it is encrypted:
/// OpenSSH derives keys by bcrypt-pbkdf, which neither libsodium nor libcrypto has.
[[nodiscard]] Result<SecretKey> from_openssh(ByteView content);

}  // namespace dgx::crypto
