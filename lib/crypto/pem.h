#pragma once

#include <string>
#include <string_view>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/crypto/secret_bytes.h"

namespace dgx::crypto {

/// `content` as one PEM block (RFC 7468).
[[nodiscard]] std::string to_pem(std::string_view label, ByteView content);

/// The label of the block that `text` begins with, such as "PUBLIC KEY"; empty if it begins with none. Only
/// capitals, digits and spaces are a label.
[[nodiscard]] std::string_view pem_label(std::string_view text);

/// The content of a text that is one block called `label` and nothing else; kMalformed otherwise. Line ends
/// may be CR LF; they are ignored between digits.
[[nodiscard]] Result<SecretBytes> from_pem(std::string_view text, std::string_view label);

}  // namespace dgx::crypto
