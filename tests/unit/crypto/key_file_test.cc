#include "dgx/crypto/key_file.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "replaced.h"

namespace dgx::crypto {
namespace {

using test::replaced;

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

TEST_CASE("a private key of another kind, or a public one, is malformed") {
  CHECK(parse_secret_key(kOpensslX25519).error().message == "not an Ed25519 private key in plain PKCS#8");
  CHECK(parse_secret_key(kOpensslPublic).error().code == ErrorCode::kMalformed);
  CHECK(parse_public_key(kOpensslPrivate).error().message == "is a private key, expected a public key");
}

TEST_CASE("an encrypted key opens with its passphrase and no other") {
  const SecretKey key = counting_key();
  const auto pem = encrypted_secret_key_pem(key, "correct horse", PassphraseCost::kInteractive);
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

std::string encrypted_with(std::uint8_t version, std::uint8_t passes, std::uint32_t memory_kib,
                           std::size_t rest) {
  const ByteWriter writer = ByteWriter().u8(version).u8(passes).u32(memory_kib).raw(Bytes(rest));
  return "-----BEGIN DGX ENCRYPTED PRIVATE KEY-----\n" + to_base64(writer.bytes()) +
         "\n-----END DGX ENCRYPTED PRIVATE KEY-----\n";
}

// A stranger's key file must not take hours or all memory before its passphrase is checked.
TEST_CASE("an encrypted key with unknown version, absurd cost or wrong length is malformed") {
  constexpr std::size_t kRest = 16 + 24 + 48;
  for (const std::string& pem :
       {encrypted_with(2, 2, 65536, kRest), encrypted_with(1, 0, 65536, kRest),
        encrypted_with(1, 11, 65536, kRest), encrypted_with(1, 2, 7, kRest),
        encrypted_with(1, 2, (1 << 20) + 1, kRest), encrypted_with(1, 2, 65536, kRest - 1),
        encrypted_with(1, 2, 65536, kRest + 1)}) {
    CHECK(parse_secret_key(pem, "x").error().code == ErrorCode::kMalformed);
  }
  CHECK(parse_secret_key(encrypted_with(1, 1, 8, kRest), "x").error().code == ErrorCode::kUnauthorised);
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
  CHECK(read_secret_key(secret)->public_key() == key.public_key());
  CHECK(*read_public_key(open) == key.public_key());
  CHECK(write_secret_key(secret, key, std::nullopt, Clobber::kRefuse).error().code ==
        ErrorCode::kCannotCreate);
  CHECK(read_public_key(secret).error().message == secret + ": is a private key, expected a public key");
  CHECK(read_secret_key(folder + "/none").error().code == ErrorCode::kMissing);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dgx::crypto
