#include "dgx/crypto/key_file.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "replaced.h"
#include "stored_keys.h"

namespace dgx::crypto {
namespace {

using test::pem_block;
using test::replaced;
using test::stored_content;
using test::stored_key;

// Written by openssl pkey -inform DER (from the PKCS#8 prefix and the seed 00 01 … 1f), and with -pubout.
constexpr std::string_view kOpensslPrivate =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view kOpensslPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
    "-----END PUBLIC KEY-----\n";
constexpr std::string_view kOpensslX25519 =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VuBCIEIFj4u9tSg8jQTgwtQnEWtaAKZiaU7n9+aMjH8kevHG9v\n"
    "-----END PRIVATE KEY-----\n";

SecretKey counting_key() {
  Seed seed;
  for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<std::uint8_t>(i);
  return SecretKey::from_seed(seed);
}

TEST_CASE("keys are written byte for byte as openssl writes them, and read back") {
  const SecretKey key = counting_key();
  CHECK(secret_key_pem(key) == kOpensslPrivate);
  CHECK(public_key_pem(key.public_key()) == kOpensslPublic);
  CHECK(*parse_public_key(kOpensslPublic) == key.public_key());
  const auto read = parse_secret_key(kOpensslPrivate);
  REQUIRE(read.ok());
  CHECK(read->public_key() == key.public_key());
}

TEST_CASE("line ends may be CR LF, and the last may be absent") {
  CHECK(parse_public_key(replaced(replaced(kOpensslPublic, "\nM", "\r\nM"), "=\n", "=\r\n")).ok());
  CHECK(parse_public_key(kOpensslPublic.substr(0, kOpensslPublic.size() - 1)).ok());
}

TEST_CASE("what is not one Ed25519 key in PEM is malformed") {
  const auto pem = GENERATE(
      as<std::string>{}, std::string(), std::string("hello"), std::string(kOpensslPublic).substr(1),
      std::string(kOpensslPublic) + "x", std::string(kOpensslPublic) + std::string(kOpensslPublic),
      replaced(kOpensslPublic, "MCow", "MCo"), replaced(kOpensslPublic, "MCow", "MCo!"),
      replaced(kOpensslPublic, "K2Vw", "K2Vu"), replaced(kOpensslPublic, "MCow", "MCowMCow"),
      std::string("-----BEGIN PUBLIC KEY-----"),
      std::string("-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----"),
      // the identity point
      std::string("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
                  "-----END PUBLIC KEY-----\n"));
  CAPTURE(pem);
  const auto key = parse_public_key(pem);
  REQUIRE_FALSE(key.ok());
  CHECK(key.error().code == ErrorCode::kMalformed);
}

std::string refusal_of(std::string_view text, std::optional<std::string_view> passphrase = {}) {
  const auto key = parse_secret_key(text, passphrase);
  REQUIRE_FALSE(key.ok());
  CHECK(key.error().code == ErrorCode::kMalformed);
  return key.error().message;
}

TEST_CASE("a private key of another kind, or a public one, is malformed") {
  CHECK(refusal_of(kOpensslX25519) == "is a key of type X25519, expected ED25519");
  CHECK(refusal_of(stored_key("refused-rsa.pem")) == "is a key of type rsaEncryption, expected ED25519");
  CHECK(refusal_of(stored_key("refused-ec.pem")) == "its PEM block is EC PRIVATE KEY, expected PRIVATE KEY");
  CHECK(refusal_of(kOpensslPublic) == "is a public key, expected a private key");
  CHECK(refusal_of(replaced(kOpensslPrivate, "MC4C", "MC4CMC4C")) == "not a private key in PKCS#8");
  CHECK(parse_public_key(kOpensslPrivate).error().message == "is a private key, expected a public key");
}

TEST_CASE("an encrypted key opens with its passphrase and no other") {
  const SecretKey key = counting_key();
  const auto pem = encrypted_secret_key_pem(key, "correct horse");
  REQUIRE(pem.ok());
  CHECK(is_encrypted_key(*pem));
  CHECK_FALSE(is_encrypted_key(kOpensslPrivate));
  const auto opened = parse_secret_key(*pem, "correct horse");
  REQUIRE(opened.ok());
  CHECK(opened->public_key() == key.public_key());
  CHECK(parse_secret_key(*pem, "correct horsf").error().code == ErrorCode::kUnauthorised);
  CHECK(parse_secret_key(*pem, "correct horsf").error().message == "wrong passphrase");
  CHECK(parse_secret_key(*pem).error().code == ErrorCode::kUnauthorised);
  CHECK(parse_public_key(*pem).error().code == ErrorCode::kMalformed);
  CHECK(encrypted_secret_key_pem(key, "").error().code == ErrorCode::kUsage);
}

TEST_CASE("keys that openssl encrypted open with their passphrase") {
  const auto name =
      GENERATE(as<std::string>{}, "aes256.pem", "aes128-sha512.pem", "aes192-sha1.pem", "scrypt.pem");
  CAPTURE(name);
  const std::string pem = stored_key(name);
  const auto opened = parse_secret_key(pem, "horse");
  REQUIRE(opened.ok());
  CHECK(opened->public_key() == counting_key().public_key());
  CHECK(parse_secret_key(pem, "hors").error().message == "wrong passphrase");
  CHECK(parse_secret_key(pem, "").error().message == "wrong passphrase");
  CHECK(parse_secret_key(pem).error().code == ErrorCode::kUnauthorised);
}

TEST_CASE("keys that are encrypted in another way, or are of another type, say so") {
  CHECK(refusal_of(stored_key("refused-des3.pem")) ==
        "encrypted key: the cipher is des-ede3-cbc, expected AES-CBC");
  CHECK(refusal_of(stored_key("refused-aria.pem")) ==
        "encrypted key: the cipher is aria-128-cbc, expected AES-CBC");
  CHECK(refusal_of(stored_key("refused-x25519-aes256.pem"), "horse") ==
        "is a key of type X25519, expected ED25519");
}

using Change = std::pair<std::string_view, std::string_view>;

/// The stored key with parts of its DER, in hex, replaced.
std::string with_der(const std::string& name, std::initializer_list<Change> changes) {
  std::string hex = to_hex(stored_content(name));
  for (const auto& [from, to] : changes) hex = replaced(hex, from, to);
  return pem_block("ENCRYPTED PRIVATE KEY", *from_hex(hex));
}

// A stranger's key file must not take hours or all memory before its passphrase is checked.
TEST_CASE("an encrypted key of an absurd cost is malformed, before it is paid") {
  const std::string iterations = "encrypted key: PBKDF2 takes 1 to 10000000 iterations here";
  CHECK(refusal_of(stored_key("refused-iterations.pem"), "horse") == iterations);
  CHECK(refusal_of(with_der("aes256.pem", {{"02020800", "02028000"}}), "horse") == iterations);  // negative
  constexpr std::string_view kCosts = "02024000020108020101";  // N 16,384, r 8, p 1
  constexpr std::string_view kRefused = "encrypted key: scrypt takes";
  CHECK(parse_secret_key(with_der("scrypt.pem", {{kCosts, "02024000020108020102"}}), "x").error().message ==
        "wrong passphrase");
  for (const std::string_view other :
       {"02024001020108020101", "02024000020110020101", "02024000020100020101", "02024000020108020100"}) {
    CAPTURE(other);
    CHECK(refusal_of(with_der("scrypt.pem", {{kCosts, other}}), "horse").starts_with(kRefused));
  }
  // p 129, a byte longer.
  const std::string slow =
      with_der("scrypt.pem", {{"308193304f", "3081943050"},
                              {"3042302106092b06010401da47040b3014", "3043302206092b06010401da47040b3015"},
                              {kCosts, "0202400002010802020081"}});
  CHECK(refusal_of(slow, "horse").starts_with(kRefused));
}

TEST_CASE("an encrypted key of a form that is not known is malformed") {
  const auto refused = [](std::string_view from, std::string_view to) {
    return refusal_of(with_der("aes256.pem", {{from, to}}), "horse");
  };
  CHECK(refused("2a0410", "2a0c10") == "encrypted key: AES-CBC without its 16 bytes of start value");
  CHECK(refused("2a864886f70d0209", "2a864886f70d0206") == "encrypted key: not a known form of PBKDF2");
  CHECK(refused("2a864886f70d01050c", "2a864886f70d01050b").find("expected PBKDF2 or scrypt") !=
        std::string::npos);
  CHECK(refused("2a864886f70d01050d", "2a864886f70d010503").find("expected PBES2") != std::string::npos);
  CHECK(refused("30819b", "30819a") == "encrypted key: not PKCS#8");
}

TEST_CASE("key files are read as they were written; the private one is its owner's alone") {
  std::string folder = (std::filesystem::temp_directory_path() / "dgx-keys-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string secret = folder + "/k.pem";
  const std::string open = folder + "/k.pub.pem";
  const SecretKey key = counting_key();
  REQUIRE(write_secret_key(secret, key, std::nullopt, Clobber::kRefuse).ok());
  REQUIRE(write_public_key(open, key.public_key(), Clobber::kRefuse).ok());
  struct stat info {};
  REQUIRE(::stat(secret.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(parse_secret_key(*read_file(secret, kMaxKeyFileBytes))->public_key() == key.public_key());
  CHECK(*read_public_key(open) == key.public_key());
  CHECK(write_secret_key(secret, key, std::nullopt, Clobber::kRefuse).error().code ==
        ErrorCode::kCannotCreate);
  CHECK(read_public_key(secret).error().message == secret + ": is a private key, expected a public key");
  CHECK(read_public_key(folder + "/none").error().code == ErrorCode::kMissing);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dgx::crypto
