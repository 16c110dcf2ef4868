#include "dgx/crypto/key_file.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "dgx/crypto/random.h"
#include "sodium_ready.h"

namespace dgx::crypto {
namespace {

constexpr std::string_view kPublicLabel = "PUBLIC KEY";
constexpr std::string_view kPrivateLabel = "PRIVATE KEY";
constexpr std::string_view kEncryptedLabel = "DGX ENCRYPTED PRIVATE KEY";
constexpr std::size_t kMaxFileBytes = 4096;
constexpr std::size_t kKeyBytes = 32;

// DER up to the 32 key bytes (RFC 8410 sections 4 and 7).
constexpr std::array<std::uint8_t, 12> kPublicPrefix = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                        0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
constexpr std::array<std::uint8_t, 16> kPrivatePrefix = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                                         0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

// The layout of an encrypted key, as specified in the header.
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kSaltAt = 6;
constexpr std::size_t kNonceAt = kSaltAt + crypto_pwhash_argon2id_SALTBYTES;
constexpr std::size_t kBoxAt = kNonceAt + crypto_secretbox_NONCEBYTES;
constexpr std::size_t kEncryptedBytes = kBoxAt + crypto_secretbox_MACBYTES + kKeyBytes;
// Limits on the cost that a file may impose before its passphrase is checked.
constexpr std::uint8_t kMaxPasses = 10;
constexpr std::uint32_t kMaxMemoryKib = 1 << 20;

/// Bytes that held a secret, erased on every way out.
class SecretBytes {
 public:
  explicit SecretBytes(Bytes bytes) : bytes_(std::move(bytes)) {}
  explicit SecretBytes(std::size_t size) : bytes_(size) {}
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  SecretBytes(SecretBytes&&) noexcept = default;
  ~SecretBytes() { erase(bytes_); }
  [[nodiscard]] const Bytes& get() const { return bytes_; }
  [[nodiscard]] Bytes& get() { return bytes_; }

 private:
  Bytes bytes_;
};

void erase_text(std::string& text) { erase({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}); }

std::string to_pem(std::string_view label, ByteView content) {
  constexpr std::size_t kLine = 64;
  std::string digits = to_base64(content);
  std::string out = fmt::format("-----BEGIN {}-----\n", label);
  // Reserved at once, so that growing leaves no copy of a secret behind.
  out.reserve(out.size() * 2 + digits.size() + digits.size() / kLine + 2);
  for (std::size_t i = 0; i < digits.size(); i += kLine) out.append(digits, i, kLine).push_back('\n');
  erase_text(digits);
  return out.append("-----END ").append(label).append("-----\n");
}

bool begins_block(std::string_view pem, std::string_view label) {
  return pem.starts_with(fmt::format("-----BEGIN {}-----", label));
}

/// The content of a text that is one block called `label`. Line ends may be CR LF; they are ignored between
/// digits.
Result<SecretBytes> from_pem(std::string_view pem, std::string_view label) {
  const std::string begin = fmt::format("-----BEGIN {}-----", label);
  const std::string end = fmt::format("-----END {}-----", label);
  while (!pem.empty() && (pem.back() == '\n' || pem.back() == '\r')) pem.remove_suffix(1);
  if (!pem.starts_with(begin) || !pem.ends_with(end) || pem.size() < begin.size() + end.size()) {
    return malformed(fmt::format("not a PEM file with one {} block", label));
  }
  pem = pem.substr(begin.size(), pem.size() - begin.size() - end.size());
  std::string digits;
  digits.reserve(pem.size());
  std::copy_if(pem.begin(), pem.end(), std::back_inserter(digits),
               [](char c) { return c != '\n' && c != '\r'; });
  auto content = from_base64(digits);
  erase_text(digits);
  if (!content.ok()) return within(fmt::format("{} block", label), std::move(content).error());
  return SecretBytes(std::move(content).value());
}

template <std::size_t N>
Bytes join(const std::array<std::uint8_t, N>& prefix, std::span<const std::uint8_t, kKeyBytes> key) {
  Bytes out(N + kKeyBytes);  // at its final size, so that growing leaves no copy of a secret behind
  std::copy(key.begin(), key.end(), std::copy(prefix.begin(), prefix.end(), out.begin()));
  return out;
}

template <std::size_t N>
bool is_key(const std::array<std::uint8_t, N>& prefix, ByteView content) {
  return content.size() == N + kKeyBytes && std::equal(prefix.begin(), prefix.end(), content.begin());
}

SecretKey key_from(ByteView seed) { return SecretKey::from_seed(seed.first<kKeyBytes>()); }

struct Derivation {
  std::uint8_t passes;
  std::uint32_t memory_kib;
};

Derivation derivation_of(PassphraseCost cost) {
  if (cost == PassphraseCost::kInteractive) return {2, 64 << 10};
  return {3, 256 << 10};
}

Result<SecretBytes> derive(std::string_view passphrase, ByteView salt, Derivation derivation) {
  if (!sodium_ready()) return internal_error("the system provides no random bytes");
  SecretBytes key(crypto_secretbox_KEYBYTES);
  const int failed = ::crypto_pwhash_argon2id(
      key.get().data(), key.get().size(), passphrase.data(), passphrase.size(), salt.data(),
      derivation.passes, std::size_t{derivation.memory_kib} << 10, crypto_pwhash_argon2id_ALG_ARGON2ID13);
  if (failed != 0) {
    return internal_error(
        fmt::format("passphrase: deriving its key needs {} MiB of memory, which are not available",
                    derivation.memory_kib >> 10));
  }
  return key;
}

Result<SecretKey> decrypt(ByteView content, std::string_view passphrase) {
  if (content.size() != kEncryptedBytes) {
    return malformed(fmt::format("encrypted key: {} bytes, expected {}", content.size(), kEncryptedBytes));
  }
  if (content[0] != kVersion) return malformed(fmt::format("encrypted key: unknown version {}", content[0]));
  Derivation derivation{content[1], 0};
  for (std::size_t i = 2; i < kSaltAt; ++i) derivation.memory_kib = derivation.memory_kib << 8 | content[i];
  if (derivation.passes < 1 || derivation.passes > kMaxPasses || derivation.memory_kib < 8 ||
      derivation.memory_kib > kMaxMemoryKib) {
    return malformed(fmt::format("encrypted key: {} passes over {} KiB are outside 1 to {} over 8 to {}",
                                 derivation.passes, derivation.memory_kib, kMaxPasses, kMaxMemoryKib));
  }
  DGX_TRY(const SecretBytes key,
          derive(passphrase, content.subspan(kSaltAt, kNonceAt - kSaltAt), derivation));
  const ByteView box = content.subspan(kBoxAt);
  SecretBytes seed(kKeyBytes);
  if (::crypto_secretbox_open_easy(seed.get().data(), box.data(), box.size(),
                                   content.subspan(kNonceAt).data(), key.get().data()) != 0) {
    return unauthorised("wrong passphrase");
  }
  return key_from(seed.get());
}

}  // namespace

std::string public_key_pem(const PublicKey& key) {
  return to_pem(kPublicLabel, join(kPublicPrefix, key.bytes));
}

std::string secret_key_pem(const SecretKey& key) {
  const SecretBytes content(join(kPrivatePrefix, key.seed()));
  return to_pem(kPrivateLabel, content.get());
}

Result<std::string> encrypted_secret_key_pem(const SecretKey& key, std::string_view passphrase,
                                             PassphraseCost cost) {
  if (passphrase.empty()) return usage_error("passphrase: is empty");
  const Derivation derivation = derivation_of(cost);
  ByteWriter writer;
  writer.u8(kVersion).u8(derivation.passes).u32(derivation.memory_kib);
  Bytes content = writer.bytes();
  content.resize(kEncryptedBytes);
  DGX_CHECK(random_bytes(std::span(content).subspan(kSaltAt, kBoxAt - kSaltAt)));
  const ByteView salt = std::span(content).subspan(kSaltAt, kNonceAt - kSaltAt);
  DGX_TRY(const SecretBytes box_key, derive(passphrase, salt, derivation));
  ::crypto_secretbox_easy(content.data() + kBoxAt, key.seed().data(), kKeyBytes, content.data() + kNonceAt,
                          box_key.get().data());
  return to_pem(kEncryptedLabel, content);
}

Result<PublicKey> parse_public_key(std::string_view pem) {
  if (begins_block(pem, kPrivateLabel) || is_encrypted_key(pem)) {
    return malformed("is a private key, expected a public key", "name the file that ends in .pub.pem");
  }
  DGX_TRY(const SecretBytes content, from_pem(pem, kPublicLabel));
  if (!is_key(kPublicPrefix, content.get())) return malformed("not an Ed25519 public key");
  PublicKey key;
  std::copy(content.get().end() - kKeyBytes, content.get().end(), key.bytes.begin());
  if (!valid_public_key(key))
    return malformed(fmt::format("public key {}: not a valid Ed25519 key", key.hex()));
  return key;
}

Result<SecretKey> parse_secret_key(std::string_view pem, std::optional<std::string_view> passphrase) {
  if (is_encrypted_key(pem)) {
    DGX_TRY(const SecretBytes content, from_pem(pem, kEncryptedLabel));
    if (!passphrase) return unauthorised("the key is encrypted and no passphrase was given");
    return decrypt(content.get(), *passphrase);
  }
  DGX_TRY(const SecretBytes content, from_pem(pem, kPrivateLabel));
  if (!is_key(kPrivatePrefix, content.get())) return malformed("not an Ed25519 private key in plain PKCS#8");
  return key_from(ByteView(content.get()).subspan(kPrivatePrefix.size()));
}

bool is_encrypted_key(std::string_view pem) { return begins_block(pem, kEncryptedLabel); }

Result<PublicKey> read_public_key(const std::string& path) {
  DGX_TRY(const std::string pem, read_file(path, kMaxFileBytes));
  auto key = parse_public_key(pem);
  if (!key.ok()) return within(path, std::move(key).error());
  return key;
}

Result<SecretKey> read_secret_key(const std::string& path, std::optional<std::string_view> passphrase) {
  DGX_TRY(std::string pem, read_file(path, kMaxFileBytes));
  auto key = parse_secret_key(pem, passphrase);
  erase_text(pem);
  if (!key.ok()) return within(path, std::move(key).error());
  return key;
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
  erase_text(pem);
  return status;
}

}  // namespace dgx::crypto
