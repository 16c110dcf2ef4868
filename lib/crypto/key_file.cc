#include "dgx/crypto/key_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dgx/crypto/random.h"
#include "openssh.h"
#include "pem.h"
#include "pkcs8.h"

namespace dgx::crypto {
namespace {

constexpr std::string_view kPublicLabel = "PUBLIC KEY";
constexpr std::string_view kPrivateLabel = "PRIVATE KEY";
constexpr std::string_view kEncryptedLabel = "ENCRYPTED PRIVATE KEY";
constexpr std::string_view kOpensshLabel = "OPENSSH PRIVATE KEY";
constexpr std::size_t kKeyBytes = 32;

// DER up to the 32 key bytes (RFC 8410, section 4).
constexpr std::array<std::uint8_t, 12> kPublicPrefix = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                        0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

/// The error of a text that holds no block of the kind that was expected, but perhaps another.
Error not_a(std::string_view expected, std::string_view label) {
  if (label.empty()) return malformed(fmt::format("not a PEM file with one {} block", expected));
  return malformed(fmt::format("its PEM block is {}, expected {}", label, expected),
                   "dgx-key new makes a key that dgx reads");
}

Result<PublicKey> from_subject_public_key(ByteView content) {
  if (content.size() != kPublicPrefix.size() + kKeyBytes ||
      !std::equal(kPublicPrefix.begin(), kPublicPrefix.end(), content.begin())) {
    return malformed("not an Ed25519 public key");
  }
  PublicKey key;
  std::copy(content.end() - kKeyBytes, content.end(), key.bytes.begin());
  return key;
}

Result<PublicKey> parse_public_pem(std::string_view text) {
  const std::string_view label = pem_label(text);
  if (label.ends_with(kPrivateLabel))
    return malformed("is a private key, expected a public key",
                     "name the file that ends in .pub.pem or .pub");
  if (label != kPublicLabel) return not_a(kPublicLabel, label);
  DGX_TRY(const SecretBytes content, from_pem(text, label));
  return from_subject_public_key(content.get());
}

}  // namespace

std::string public_key_pem(const PublicKey& key) {
  Bytes content(kPublicPrefix.begin(), kPublicPrefix.end());
  content.insert(content.end(), key.bytes.begin(), key.bytes.end());
  return to_pem(kPublicLabel, content);
}

std::string secret_key_pem(const SecretKey& key) { return to_pem(kPrivateLabel, to_pkcs8(key).get()); }

Result<std::string> encrypted_secret_key_pem(const SecretKey& key, std::string_view passphrase) {
  DGX_TRY(const Bytes content, to_encrypted_pkcs8(key, passphrase));
  return to_pem(kEncryptedLabel, content);
}

Result<PublicKey> parse_public_key(std::string_view text) {
  DGX_TRY(const PublicKey key,
          is_openssh_public_key(text) ? parse_openssh_public_key(text) : parse_public_pem(text));
  if (valid_public_key(key)) return key;
  return malformed(fmt::format("public key {}: not a valid Ed25519 key", key.hex()));
}

Result<SecretKey> parse_secret_key(std::string_view text, std::optional<std::string_view> passphrase) {
  if (is_public_key(text))
    return malformed("is a public key, expected a private key", "name the private key that goes with it");
  const std::string_view label = pem_label(text);
  if (label != kPrivateLabel && label != kEncryptedLabel && label != kOpensshLabel)
    return not_a(kPrivateLabel, label);
  DGX_TRY(const SecretBytes content, from_pem(text, label));
  if (label == kOpensshLabel) return from_openssh(content.get());
  if (label == kEncryptedLabel) return from_encrypted_pkcs8(content.get(), passphrase);
  return from_pkcs8(content.get());
}

bool is_public_key(std::string_view text) {
  return pem_label(text) == kPublicLabel || is_openssh_public_key(text);
}

bool is_encrypted_key(std::string_view text) { return pem_label(text) == kEncryptedLabel; }

bool is_openssh_private_key(std::string_view text) { return pem_label(text) == kOpensshLabel; }

Result<PublicKey> read_public_key(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, kMaxKeyFileBytes));
  auto key = parse_public_key(text);
  if (!key.ok()) return within(path, std::move(key).error());
  return key;
}

std::string foreign_public_key(const std::string& path) {
  const auto text = read_file(path, kMaxKeyFileBytes);
  if (!text.ok()) return {};
  const std::string_view label = pem_label(*text);
  if (label.empty()) return foreign_openssh_type(*text);
  if (label != kPublicLabel) return label.ends_with(kPublicLabel) ? std::string(label) : std::string();
  const auto content = from_pem(*text, label);
  return content.ok() ? foreign_key_type(content->get()) : std::string();
}

Status write_public_key(const std::string& path, const PublicKey& key, Clobber clobber) {
  return write_file(path, public_key_pem(key), clobber);
}

Status write_secret_key(const std::string& path, const SecretKey& key,
                        std::optional<std::string_view> passphrase, Clobber clobber) {
  constexpr unsigned kOwnerOnly = 0600;
  std::string pem;
  if (passphrase) {
    DGX_TRY(pem, encrypted_secret_key_pem(key, *passphrase));
  } else {
    pem = secret_key_pem(key);
  }
  auto status = write_file(path, pem, clobber, kOwnerOnly);
  erase(pem);
  return status;
}

}  // namespace dgx::crypto
