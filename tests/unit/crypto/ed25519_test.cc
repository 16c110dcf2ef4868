#include "dgx/crypto/ed25519.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "dgx/crypto/random.h"
#include "dgx/crypto/sha256.h"

namespace dgx::crypto {
namespace {

Bytes bytes_of(std::string_view hex) {
  const auto bytes = from_hex(hex);
  REQUIRE(bytes.ok());
  return *bytes;
}

SecretKey key_of(std::string_view seed_hex) {
  const Bytes seed = bytes_of(seed_hex);
  return SecretKey::from_seed(std::span(seed).first<32>());
}

PublicKey public_of(std::string_view hex) {
  PublicKey key;
  const Bytes bytes = bytes_of(hex);
  REQUIRE(bytes.size() == 32);
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

constexpr std::string_view kCountingSeed = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

// RFC 8032 section 7.1, tests 1 to 3.
TEST_CASE("signatures are those of RFC 8032") {
  struct Vector {
    std::string_view seed, key, message, signature;
  };
  const auto vector = GENERATE(
      Vector{
          "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
          "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
          "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd2"
          "5bf5f0595bbe24655141438e7a100b"},
      Vector{
          "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
          "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
          "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c38"
          "7b2eaeb4302aeeb00d291612bb0c00"},
      Vector{
          "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
          "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
          "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a"
          "7c15e9716ed28dc027beceea1ec40a"});
  const SecretKey key = key_of(vector.seed);
  const Bytes message = bytes_of(vector.message);
  CHECK(key.public_key().hex() == vector.key);
  CHECK(to_hex(key.seed()) == vector.seed);
  const Signature signature = key.sign(message);
  CHECK(to_hex(signature.bytes) == vector.signature);
  CHECK(verify(key.public_key(), message, signature));
}

// dgx-manifest(5): openssl, cosign and securesystemslib accept this envelope.
TEST_CASE("the DSSE vector has its key id, digest and signature, bit for bit") {
  const std::string body =
      R"({"_type":"https://in-toto.io/Statement/v1","predicate":{"steps":{"first":0,"last":100},"task":"t-0001"},)"
      R"("predicateType":"https://example.org/dgx/segment/v1","subject":[{"digest":{"sha256":)"
      R"("4430a32576d7660fd2778d938d7bca23fa72a5ca97d0bde9b2911205a40cd4d2"},"name":"ckpt-000100.h5"}]})";
  REQUIRE(body.size() == 282);
  CHECK(sha256(as_bytes("hello checkpoint\n")).hex() ==
        "4430a32576d7660fd2778d938d7bca23fa72a5ca97d0bde9b2911205a40cd4d2");
  const std::string pae = "DSSEv1 28 application/vnd.in-toto+json 282 " + body;
  REQUIRE(pae.size() == 325);
  CHECK(sha256(as_bytes(pae)).hex() == "f64867e00f5cd2c9d33299aee75dc7bab8177fe313de37e6d3018d379d14d69b");
  const SecretKey key = key_of(kCountingSeed);
  CHECK(key.public_key().hex() == "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8");
  CHECK(key_id(key.public_key()).hex() == "63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9");
  CHECK(to_hex(key.sign(as_bytes(pae)).bytes) ==
        "dbf507564640c8e5b42299defa3acbb686f6a54170d32e9b8cf67c298cda86be024658ce5afaeb85823c60aedac08f35963d"
        "2a2910f4"
        "074f60ef71e030d2b106");
}

TEST_CASE("any flipped bit of key, message or signature is refused") {
  const SecretKey key = key_of(kCountingSeed);
  Bytes message = bytes_of("00112233");
  Signature signature = key.sign(message);
  PublicKey signer = key.public_key();
  for (std::size_t bit = 0; bit < 8; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1u << bit);
    for (std::uint8_t& byte : message) {
      byte ^= mask;
      CHECK_FALSE(verify(signer, message, signature));
      byte ^= mask;
    }
    for (std::uint8_t& byte : signature.bytes) {
      byte ^= mask;
      CHECK_FALSE(verify(signer, message, signature));
      byte ^= mask;
    }
    for (std::uint8_t& byte : signer.bytes) {
      byte ^= mask;
      CHECK_FALSE(verify(signer, message, signature));
      byte ^= mask;
    }
  }
  CHECK(verify(signer, message, signature));
}

// With the identity point as key, R = identity and S = 0 satisfy the equation for every message; OpenSSL
// accepts this.
TEST_CASE("a forged signature under the identity point is refused for any message") {
  PublicKey identity;
  identity.bytes[0] = 1;
  Signature forged;
  forged.bytes[0] = 1;
  for (const std::string_view message : {"", "pay the forger", "anything"}) {
    CHECK_FALSE(verify(identity, as_bytes(message), forged));
  }
  CHECK_FALSE(valid_public_key(identity));
}

// S and S + L satisfy the same equation: only the smaller one is valid (RFC 8032 section 5.1.7).
TEST_CASE("a signature whose scalar is not reduced is refused") {
  const Bytes order = bytes_of("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  const SecretKey key = key_of(kCountingSeed);
  Signature signature = key.sign(as_bytes("m"));
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    carry += unsigned{signature.bytes[32 + i]} + order[i];
    signature.bytes[32 + i] = static_cast<std::uint8_t>(carry);
    carry >>= 8;
  }
  CHECK_FALSE(verify(key.public_key(), as_bytes("m"), signature));
}

TEST_CASE("keys of small order, not canonical or off the curve are nobody's") {
  const auto hex = GENERATE(as<std::string>{},
                            // order 4, order 2, order 8 (both signs), the identity with a set sign bit
                            "0000000000000000000000000000000000000000000000000000000000000000",
                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
                            "0100000000000000000000000000000000000000000000000000000000000080",
                            // y = p and y = p + 1: not reduced
                            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                            // no x exists for this y
                            "0200000000000000000000000000000000000000000000000000000000000000");
  CAPTURE(hex);
  CHECK_FALSE(valid_public_key(public_of(hex)));
  CHECK(public_key_from_hex(hex).error().code == ErrorCode::kMalformed);
}

TEST_CASE("hex of a valid key is read, anything else is not") {
  const SecretKey key = key_of(kCountingSeed);
  CHECK(*public_key_from_hex(key.public_key().hex()) == key.public_key());
  CHECK_FALSE(public_key_from_hex(key.public_key().hex().substr(2)).ok());
  CHECK_FALSE(public_key_from_hex("").ok());
  CHECK_FALSE(public_key_from_hex(std::string(64, 'g')).ok());
  CHECK(signature_from_bytes(Bytes(64)).ok());
  CHECK_FALSE(signature_from_bytes(Bytes(63)).ok());
}

TEST_CASE("generated keys are valid and differ") {
  const auto first = SecretKey::generate();
  const auto second = SecretKey::generate();
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(valid_public_key(first->public_key()));
  CHECK(first->public_key() != second->public_key());
}

TEST_CASE("a key that was moved from holds no secret") {
  SecretKey key = key_of(kCountingSeed);
  SecretKey moved = std::move(key);
  CHECK(to_hex(key.seed()) == std::string(64, '0'));  // NOLINT: inspecting the moved-from key is the point
  CHECK(to_hex(moved.seed()) == kCountingSeed);
  SecretKey other = key_of("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  other = std::move(moved);
  CHECK(to_hex(moved.seed()) == std::string(64, '0'));  // NOLINT
  CHECK(other.public_key().hex().substr(0, 4) == "03a1");
}

TEST_CASE("random bytes differ from call to call") {
  Bytes first(32);
  Bytes second(32);
  REQUIRE(random_bytes(first).ok());
  REQUIRE(random_bytes(second).ok());
  CHECK(first != second);
  CHECK(random_bytes({}).ok());
}

}  // namespace
}  // namespace dgx::crypto
