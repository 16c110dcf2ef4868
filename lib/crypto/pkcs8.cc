#include "pkcs8.h"

#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "dgx/crypto/random.h"

namespace dgx::crypto {
namespace {

// DER up to the 32 bytes of the seed (RFC 8410, section 7).
constexpr std::array<std::uint8_t, 16> kPlainPrefix = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                                       0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
constexpr std::size_t kSeedBytes = 32;
constexpr std::size_t kBlockBytes = 16;  // of AES

// The memory that libcrypto's scrypt takes unless told otherwise, so that `openssl pkey` opens the file. A
// higher cost is bought with passes: 16 times 16 MiB.
constexpr std::uint64_t kMaxScryptBytes = 32 << 20;
constexpr std::uint64_t kScryptN = 1 << 14;
constexpr std::uint64_t kScryptR = 8;
constexpr std::uint64_t kScryptP = 16;
// About ten seconds each, so that a stranger's file cannot take hours before its passphrase is checked.
constexpr std::uint64_t kMaxScryptWork = 1 << 24;  // N r p
constexpr std::uint64_t kMaxIterations = 10'000'000;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* value) const {
    kFree(value);
  }
};
template <class T, auto kFree>
using Owned = std::unique_ptr<T, Free<kFree>>;
using PlainInfo = Owned<PKCS8_PRIV_KEY_INFO, ::PKCS8_PRIV_KEY_INFO_free>;
using PublicInfo = Owned<X509_PUBKEY, ::X509_PUBKEY_free>;
using EncryptedInfo = Owned<X509_SIG, ::X509_SIG_free>;

std::string name_of(const ASN1_OBJECT* object) {
  std::array<char, 80> name{};
  ::OBJ_obj2txt(name.data(), static_cast<int>(name.size()), object, 0);
  return name.data();
}

/// The number, or nullopt if it is not from 1 to `most`.
std::optional<std::uint64_t> number_of(const ASN1_INTEGER* integer, std::uint64_t most) {
  std::uint64_t out = 0;
  if (integer == nullptr || ::ASN1_INTEGER_get_uint64(&out, integer) != 1) return std::nullopt;
  return out >= 1 && out <= most ? std::optional(out) : std::nullopt;
}

Result<SecretKey> key_of(const PKCS8_PRIV_KEY_INFO* info) {
  const ASN1_OBJECT* type = nullptr;
  const unsigned char* octets = nullptr;
  int size = 0;
  if (::PKCS8_pkey_get0(&type, &octets, &size, nullptr, info) != 1)
    return malformed("not a private key in PKCS#8");
  if (::OBJ_obj2nid(type) != NID_ED25519)
    return malformed(fmt::format("is a key of type {}, expected ED25519", name_of(type)));
  // An OCTET STRING in the OCTET STRING.
  const ByteView content(octets, static_cast<std::size_t>(size));
  if (content.size() != 2 + kSeedBytes || content[0] != 0x04 || content[1] != kSeedBytes)
    return malformed("not an Ed25519 private key, which has 32 bytes");
  return SecretKey::from_seed(content.last<kSeedBytes>());
}

/// The length of the cipher's key in bytes; nullopt for a cipher that is not AES-CBC.
std::optional<std::uint64_t> aes_key_bytes(const ASN1_OBJECT* cipher) {
  switch (::OBJ_obj2nid(cipher)) {
    case NID_aes_128_cbc: return 16;
    case NID_aes_192_cbc: return 24;
    case NID_aes_256_cbc: return 32;
    default: return std::nullopt;
  }
}

bool known_hash(const X509_ALGOR* prf) {
  if (prf == nullptr) return true;  // the default, HMAC with SHA-1
  constexpr std::array kKnown{NID_hmacWithSHA1, NID_hmacWithSHA224, NID_hmacWithSHA256, NID_hmacWithSHA384,
                              NID_hmacWithSHA512};
  return std::find(kKnown.begin(), kKnown.end(), ::OBJ_obj2nid(prf->algorithm)) != kKnown.end();
}

Status check_pbkdf2(const ASN1_TYPE* parameters, std::uint64_t key_bytes) {
  const Owned<PBKDF2PARAM, ::PBKDF2PARAM_free> form(
      static_cast<PBKDF2PARAM*>(::ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(PBKDF2PARAM), parameters)));
  if (!form || form->salt->type != V_ASN1_OCTET_STRING || !known_hash(form->prf) ||
      (form->keylength != nullptr && number_of(form->keylength, key_bytes) != key_bytes)) {
    return malformed("encrypted key: not a known form of PBKDF2");
  }
  if (number_of(form->iter, kMaxIterations)) return {};
  return malformed(fmt::format("encrypted key: PBKDF2 takes 1 to {} iterations here", kMaxIterations));
}

Status check_scrypt(const ASN1_TYPE* parameters, std::uint64_t key_bytes) {
  const Owned<SCRYPT_PARAMS, ::SCRYPT_PARAMS_free> form(
      static_cast<SCRYPT_PARAMS*>(::ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(SCRYPT_PARAMS), parameters)));
  if (!form || (form->keyLength != nullptr && number_of(form->keyLength, key_bytes) != key_bytes))
    return malformed("encrypted key: not a known form of scrypt");
  // Nothing below overflows: each is at most 2^24 and, by the first product, N r and r p are at most 2^18.
  const auto n = number_of(form->costParameter, kMaxScryptWork);
  const auto r = number_of(form->blockSize, kMaxScryptWork);
  const auto p = number_of(form->parallelizationParameter, kMaxScryptWork);
  if (n && r && p && *n > 1 && (*n & (*n - 1)) == 0 && 128 * *r * (*n + *p + 2) <= kMaxScryptBytes &&
      *n * *r * *p <= kMaxScryptWork) {
    return {};
  }
  return malformed(
      fmt::format("encrypted key: scrypt takes at most {} MiB and N r p = {} here, and N is a power of two",
                  kMaxScryptBytes >> 20, kMaxScryptWork));
}

/// Accepts PBES2 with AES-CBC under PBKDF2 or scrypt, at a bounded cost.
Status check_scheme(const X509_ALGOR* scheme) {
  if (::OBJ_obj2nid(scheme->algorithm) != NID_pbes2) {
    return malformed(
        fmt::format("encrypted key: is encrypted by {}, expected PBES2", name_of(scheme->algorithm)),
        "openssl pkcs8 -topk8 -v2 aes-256-cbc writes it anew");
  }
  const Owned<PBE2PARAM, ::PBE2PARAM_free> form(
      static_cast<PBE2PARAM*>(::ASN1_TYPE_unpack_sequence(ASN1_ITEM_rptr(PBE2PARAM), scheme->parameter)));
  if (!form) return malformed("encrypted key: PBES2 without its parameters");
  const auto key_bytes = aes_key_bytes(form->encryption->algorithm);
  if (!key_bytes) {
    return malformed(fmt::format("encrypted key: the cipher is {}, expected AES-CBC",
                                 name_of(form->encryption->algorithm)),
                     "openssl pkcs8 -topk8 -v2 aes-256-cbc writes it anew");
  }
  const ASN1_TYPE* const iv = form->encryption->parameter;
  if (iv == nullptr || iv->type != V_ASN1_OCTET_STRING ||
      ::ASN1_STRING_length(iv->value.octet_string) != static_cast<int>(kBlockBytes)) {
    return malformed("encrypted key: AES-CBC without its 16 bytes of start value");
  }
  const ASN1_TYPE* const parameters = form->keyfunc->parameter;
  switch (::OBJ_obj2nid(form->keyfunc->algorithm)) {
    case NID_id_pbkdf2: return check_pbkdf2(parameters, *key_bytes);
    case NID_id_scrypt: return check_scrypt(parameters, *key_bytes);
    default:
      return malformed(fmt::format("encrypted key: the key is derived by {}, expected PBKDF2 or scrypt",
                                   name_of(form->keyfunc->algorithm)));
  }
}

template <class T>
Result<Bytes> encoded(const T* value, int (*encode)(const T*, unsigned char**)) {
  const int size = encode(value, nullptr);
  if (size <= 0) return internal_error("a key cannot be encoded");
  Bytes out(static_cast<std::size_t>(size));
  unsigned char* at = out.data();
  encode(value, &at);
  return out;
}

}  // namespace

SecretBytes to_pkcs8(const SecretKey& key) {
  SecretBytes out(kPlainPrefix.size() + kSeedBytes);
  const auto seed = key.seed();
  std::copy(seed.begin(), seed.end(), std::copy(kPlainPrefix.begin(), kPlainPrefix.end(), out.get().begin()));
  return out;
}

Result<SecretKey> from_pkcs8(ByteView der) {
  const unsigned char* at = der.data();
  const PlainInfo info(::d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(der.size())));
  if (!info || at != der.data() + der.size()) return malformed("not a private key in PKCS#8");
  return key_of(info.get());
}

std::string foreign_key_type(ByteView der) {
  const unsigned char* at = der.data();
  const PublicInfo info(::d2i_X509_PUBKEY(nullptr, &at, static_cast<long>(der.size())));
  ASN1_OBJECT* type = nullptr;
  const bool is_whole = info != nullptr && at == der.data() + der.size();
  if (!is_whole || ::X509_PUBKEY_get0_param(&type, nullptr, nullptr, nullptr, info.get()) != 1) return {};
  return ::OBJ_obj2nid(type) == NID_ED25519 ? std::string() : name_of(type);
}

Result<Bytes> to_encrypted_pkcs8(const SecretKey& key, std::string_view passphrase) {
  if (passphrase.empty()) return usage_error("passphrase: is empty");
  std::array<std::uint8_t, 16> salt{};
  std::array<std::uint8_t, kBlockBytes> start{};
  DGX_CHECK(random_bytes(salt));
  DGX_CHECK(random_bytes(start));
  const SecretBytes plain = to_pkcs8(key);
  const unsigned char* at = plain.get().data();
  const PlainInfo info(::d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(plain.get().size())));
  Owned<X509_ALGOR, ::X509_ALGOR_free> scheme(
      ::PKCS5_pbe2_set_scrypt(::EVP_aes_256_cbc(), salt.data(), static_cast<int>(salt.size()), start.data(),
                              kScryptN, kScryptR, kScryptP));
  if (!info || !scheme) return internal_error("libcrypto offers no scrypt or AES");
  const EncryptedInfo sealed(
      ::PKCS8_set0_pbe(passphrase.data(), static_cast<int>(passphrase.size()), info.get(), scheme.get()));
  if (!sealed)
    return internal_error("passphrase: deriving its key needs 16 MiB of memory, which are not available");
  static_cast<void>(scheme.release());  // `sealed` has it
  return encoded<X509_SIG>(sealed.get(), ::i2d_X509_SIG);
}

Result<SecretKey> from_encrypted_pkcs8(ByteView der, std::optional<std::string_view> passphrase) {
  const unsigned char* at = der.data();
  const EncryptedInfo sealed(::d2i_X509_SIG(nullptr, &at, static_cast<long>(der.size())));
  if (!sealed || at != der.data() + der.size()) return malformed("encrypted key: not PKCS#8");
  const X509_ALGOR* scheme = nullptr;
  const ASN1_OCTET_STRING* content = nullptr;
  ::X509_SIG_get0(sealed.get(), &scheme, &content);
  DGX_CHECK(check_scheme(scheme));
  const int size = ::ASN1_STRING_length(content);
  if (size <= 0 || size % static_cast<int>(kBlockBytes) != 0)
    return malformed("encrypted key: its content is no whole number of blocks");
  if (!passphrase) return unauthorised("the key is encrypted and no passphrase was given");
  const PlainInfo info(
      ::PKCS8_decrypt(sealed.get(), passphrase->data(), static_cast<int>(passphrase->size())));
  if (!info) return unauthorised("wrong passphrase");
  return key_of(info.get());
}

}  // namespace dgx::crypto
