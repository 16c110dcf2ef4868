#include "dgx/manifest/envelope.h"

#include <catch2/catch.hpp>

#include "replaced.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

// The byte-exact vector of dgx-manifest(5), "Envelope", made with Python's cryptography and checked with
// openssl.
const std::string kPayload =
    R"({"_type":"https://in-toto.io/Statement/v1","predicate":{"steps":{"first":0,"last":100},"task":"t-0001"},)"
    R"("predicateType":"https://example.org/dgx/segment/v1","subject":[{"digest":{"sha256":)"
    R"("4430a32576d7660fd2778d938d7bca23fa72a5ca97d0bde9b2911205a40cd4d2"},"name":"ckpt-000100.h5"}]})";

crypto::SecretKey vector_key() {
  crypto::Seed seed;
  for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<std::uint8_t>(i);
  return crypto::SecretKey::from_seed(seed);
}

std::string message_of(const Result<Envelope>& result) {
  return result.ok() ? "accepted" : result.error().message;
}

}  // namespace

TEST_CASE("an envelope has the bytes of the specification's vector") {
  const crypto::SecretKey key = vector_key();
  REQUIRE(kPayload.size() == 282);
  REQUIRE(pre_authentication(kPayload).size() == 325);
  REQUIRE(statement_id(kPayload).hex() == "f64867e00f5cd2c9d33299aee75dc7bab8177fe313de37e6d3018d379d14d69b");
  const auto text = sign(kPayload, key);
  REQUIRE(text.ok());
  const auto envelope = parse_envelope(*text);
  REQUIRE(message_of(envelope) == "accepted");
  CHECK(envelope->key_id.hex() == "63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9");
  CHECK(to_hex(envelope->signature.bytes) ==
        "dbf507564640c8e5b42299defa3acbb686f6a54170d32e9b8cf67c298cda86be"
        "024658ce5afaeb85823c60aedac08f35963d2a2910f4074f60ef71e030d2b106");
  CHECK(envelope->payload == kPayload);
  CHECK(open(*text, key.public_key()).ok());
  CHECK(open(*text + "\n", key.public_key()).ok());
}

TEST_CASE("an envelope opens under no other key") {
  const auto text = sign(kPayload, vector_key());
  const auto opened = open(*text, test::key(9).public_key());
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().code == ErrorCode::kUnauthorised);
}

TEST_CASE("only canonical JSON is signed") {
  const auto spaced = sign(R"({"a": 1})", vector_key());
  REQUIRE_FALSE(spaced.ok());
  CHECK(spaced.error().message == "payload: json: not canonical (RFC 8785) at byte 5");
  CHECK_FALSE(sign("", vector_key()).ok());
  CHECK_FALSE(sign(R"({"a":1.5})", vector_key()).ok());
}

TEST_CASE("every departure from the strict profile is refused with its place") {
  const std::string good = *sign(R"({"a":1})", vector_key());
  const auto refused = [&](std::string_view what, std::string_view with) {
    return message_of(parse_envelope(test::replaced(good, what, with)));
  };
  CHECK(refused(R"("payload":)", R"("payloac":)") == "envelope: payload: is missing");
  CHECK(refused("in-toto", "in-tota") ==
        "envelope: payloadType: is neither \"application/vnd.in-toto+json\" nor \"application/json\"");
  CHECK(refused("eyJhIjoxfQ==", "eyJhIjoxfQ") ==
        "envelope: payload: base64: length is not a multiple of four at position 10");
  CHECK(refused("eyJhIjoxfQ==", "eyJhIjoxfR==") ==
        "envelope: payload: base64: trailing bits are not zero at position 9");
  CHECK(refused("eyJhIjoxfQ==", "eyJhIjo-fQ==") == "envelope: payload: base64: not a digit at position 7");
  CHECK(refused("eyJhIjoxfQ==", "eyJhIjoxfQ ==") ==
        "envelope: payload: base64: length is not a multiple of four at position 13");
  CHECK(refused(R"("keyid":")", R"("extra":1,"keyid":")") == "envelope: signatures: 0: extra: unknown field");
  CHECK(refused(R"("keyid":"63d0)", R"("keyid":"63D0)") ==
        "envelope: signatures: 0: keyid: hex: not a lower-case hex digit at position 2");
  CHECK(refused(R"("signatures":[{)", R"("signatures":[{},{)") ==
        "envelope: signatures: has 2 items, at most 1 allowed");
  CHECK(refused(R"({"payload")", R"({ "payload")") == "json: not canonical (RFC 8785) at byte 1");
  CHECK(refused(R"({"payload")", R"({"payload":"","payload")").find("duplicate key") != std::string::npos);
  CHECK(message_of(parse_envelope(good + " ")) ==
        "json: not canonical (RFC 8785) at byte " + std::to_string(good.size()));
  CHECK(message_of(parse_envelope(good + "\n\n")) ==
        "json: not canonical (RFC 8785) at byte " + std::to_string(good.size()));
  CHECK(message_of(parse_envelope(good + "{}")).find("json: ") == 0);
  CHECK_FALSE(parse_envelope("").ok());
  CHECK_FALSE(parse_envelope(std::string(kMaxEnvelopeBytes + 1, ' ')).ok());
}

TEST_CASE("an envelope without signature or with a short one is refused") {
  const std::string good = *sign(R"({"a":1})", vector_key());
  const std::size_t at = good.find("[{");
  const std::string none = good.substr(0, at) + "[]}";
  CHECK(message_of(parse_envelope(none)) == "envelope: signatures: must have exactly one entry");
  const std::size_t sig = good.find("\"sig\":\"") + 7;
  const std::string shorter = good.substr(0, sig) + good.substr(sig + 4);
  CHECK(message_of(parse_envelope(shorter)).find("envelope: signatures: 0: sig: ") == 0);
}

TEST_CASE("a flip of any bit of an envelope is noticed") {
  const crypto::SecretKey key = vector_key();
  const std::string good = *sign(kPayload, key);
  int noticed = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      noticed += open(flipped, key.public_key()).ok() ? 0 : 1;
    }
  }
  CHECK(noticed == static_cast<int>(good.size()) * 8);
}
