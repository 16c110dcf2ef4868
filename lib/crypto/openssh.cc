#include "openssh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace dgx::crypto {
namespace {

constexpr std::string_view kType = "ssh-ed25519";
constexpr std::string_view kMagic{"openssh-key-v1\0", 15};
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kBlockBytes = 8;  // to which a private key that is not encrypted is padded

/// Reads numbers and strings of RFC 4251, section 5. Errors name the byte of the whole content.
class Reader {
 public:
  explicit Reader(ByteView bytes, std::size_t at = 0) : bytes_(bytes), at_(at) {}

  Result<std::uint32_t> number() {
    if (bytes_.size() < 4) return here("it ends within a number");
    std::uint32_t out = 0;
    for (const std::uint8_t byte : bytes_.first<4>()) out = out << 8 | byte;
    skip(4);
    return out;
  }
  /// The string's bytes; `size`, unless it is 0, is the only length they may have.
  Result<ByteView> string(std::size_t size = 0) {
    DGX_TRY(const std::uint32_t length, number());
    if (length > bytes_.size()) return here(fmt::format("a string of {} bytes ends outside", length));
    if (size != 0 && length != size) return here(fmt::format("{} bytes, expected {}", length, size));
    const ByteView out = bytes_.first(length);
    skip(length);
    return out;
  }
  /// A reader of the string that follows.
  Result<Reader> inner() {
    DGX_TRY(const ByteView inside, string());
    return Reader(inside, at_ - inside.size());
  }
  [[nodiscard]] ByteView rest() const { return bytes_; }
  [[nodiscard]] Error here(std::string_view what) const {
    return malformed(fmt::format("OpenSSH key: byte {}: {}", at_, what));
  }

 private:
  void skip(std::size_t count) {
    bytes_ = bytes_.subspan(count);
    at_ += count;
  }
  ByteView bytes_;
  std::size_t at_;
};

bool of_type(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '@' || c == '.';
}

Error another_type(std::string_view type) {
  const bool is_name = type.size() <= 64 && std::all_of(type.begin(), type.end(), of_type);
  return malformed(fmt::format("is an {} key, expected {}", is_name ? type : "unknown", kType),
                   "ssh-keygen -t ed25519 makes one");
}

/// A type and a public key, as they stand in public and private keys.
Result<PublicKey> read_public_key(Reader& in) {
  DGX_TRY(const ByteView type, in.string());
  if (as_text(type) != kType) return another_type(as_text(type));
  DGX_TRY(const ByteView bytes, in.string(kKeyBytes));
  PublicKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

Result<PublicKey> read_whole_public_key(Reader in) {
  DGX_TRY(const PublicKey key, read_public_key(in));
  if (!in.rest().empty()) return in.here("more than a public key");
  return key;
}

/// The private part: two equal numbers, by which OpenSSH recognises the passphrase, the key, a comment, and
/// the bytes 1, 2, 3 … up to a whole number of blocks.
Result<SecretKey> read_private_part(Reader in, const PublicKey& expected) {
  if (in.rest().size() % kBlockBytes != 0) return in.here("the private part is no whole number of blocks");
  DGX_TRY(const std::uint32_t check, in.number());
  DGX_TRY(const std::uint32_t again, in.number());
  if (check != again) return in.here("the check numbers differ");
  DGX_TRY(const PublicKey listed, read_public_key(in));
  DGX_TRY(const ByteView pair, in.string(2 * kKeyBytes));
  SecretKey key = SecretKey::from_seed(pair.first<kKeyBytes>());
  const auto& bytes = key.public_key().bytes;
  if (key.public_key() != expected || listed != expected ||
      !std::equal(bytes.begin(), bytes.end(), pair.begin() + kKeyBytes)) {
    return in.here("the private key is not that of the public key");
  }
  DGX_TRY(const ByteView comment, in.string());
  static_cast<void>(comment);
  const ByteView padding = in.rest();
  for (std::size_t i = 0; i < padding.size(); ++i)
    if (padding[i] != i + 1 || i + 1 >= kBlockBytes) return in.here("the padding is not 1, 2, 3 …");
  return key;
}

}  // namespace

bool is_openssh_public_key(std::string_view text) {
  const bool begins = text.starts_with("ssh-") || text.starts_with("ecdsa-sha2-") || text.starts_with("sk-");
  const auto end = std::find_if_not(text.begin(), text.end(), of_type);
  return begins && end != text.end() && *end == ' ';
}

Result<PublicKey> parse_openssh_public_key(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.find_first_of("\r\n") != std::string_view::npos)
    return malformed("has more than one line, expected one public key");
  const std::string_view type = text.substr(0, text.find(' '));
  if (type != kType) return another_type(type);
  text.remove_prefix(std::min(type.size() + 1, text.size()));
  const auto blob = from_base64(text.substr(0, text.find(' ')));
  if (!blob.ok()) return within(std::string(kType), blob.error());
  return read_whole_public_key(Reader(*blob));
}

std::string foreign_openssh_type(std::string_view text) {
  const std::string_view type = text.substr(0, text.find(' '));
  return is_openssh_public_key(text) && type != kType ? std::string(type) : std::string();
}

Result<SecretKey> from_openssh(ByteView content) {
  if (!as_text(content).starts_with(kMagic))
    return malformed("OpenSSH key: does not begin with openssh-key-v1");
  Reader in(content.subspan(kMagic.size()), kMagic.size());
  DGX_TRY(const ByteView cipher, in.string());
  DGX_TRY(const ByteView derivation, in.string());
  DGX_TRY(const ByteView options, in.string());
  DGX_TRY(const std::uint32_t count, in.number());
  if (count != 1) return in.here(fmt::format("{} keys, expected one", count));
  DGX_TRY(const Reader outside, in.inner());
  DGX_TRY(const PublicKey public_key, read_whole_public_key(outside));
  if (as_text(cipher) != "none" || as_text(derivation) != "none") {
    return unauthorised("is encrypted by OpenSSH, whose way to derive keys dgx does not have",
                        "make a copy without a passphrase (cp KEY copy; ssh-keygen -p -N '' -f copy), then "
                        "dgx-key passphrase copy -o KEY.pem, and remove it");
  }
  DGX_TRY(const Reader inside, in.inner());
  if (!options.empty() || !in.rest().empty()) return in.here("more than one key that is not encrypted");
  return read_private_part(inside, public_key);
}

}  // namespace dgx::crypto
