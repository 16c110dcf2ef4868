#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "dgx/core/files.h"
#include "dgx/crypto/key_file.h"

namespace dgx::test {

/// The text of a file in tests/vectors/keys, whose make.sh says what it is.
inline std::string stored_key(const std::string& name) {
  const auto text = read_file(DGX_VECTORS "/keys/" + name, crypto::kMaxKeyFileBytes);
  REQUIRE(text.ok());
  return *text;
}

/// The content of its PEM block.
inline Bytes stored_content(const std::string& name) {
  std::string digits = stored_key(name);
  digits.erase(0, digits.find('\n') + 1);
  digits.erase(digits.find("-----"));
  std::erase(digits, '\n');
  const auto content = from_base64(digits);
  REQUIRE(content.ok());
  return *content;
}

inline std::string pem_block(const std::string& label, ByteView content) {
  return "-----BEGIN " + label + "-----\n" + to_base64(content) + "\n-----END " + label + "-----\n";
}

}  // namespace dgx::test
