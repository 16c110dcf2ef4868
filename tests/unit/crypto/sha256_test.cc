#include "dgx/crypto/sha256.h"

#include <catch2/catch.hpp>

namespace dgx::crypto {
namespace {

// FIPS 180-4 examples, and a million "a" (NIST).
TEST_CASE("SHA-256 gives the published digests") {
  CHECK(sha256({}).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256(as_bytes("abc")).hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")).hex() ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(as_bytes(std::string(1000000, 'a'))).hex() ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("parts of any length hash as the whole") {
  Bytes bytes(200);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37);
  const ByteView all = bytes;
  const Digest whole = sha256(all);
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    CHECK(sha256(all.first(cut), all.subspan(cut)) == whole);
  }
  Sha256 hash;
  for (const std::uint8_t& byte : bytes) hash.update({&byte, 1});
  CHECK(hash.finish() == whole);
}

TEST_CASE("a digest goes in as its 32 bytes") {
  const Digest digest = sha256(as_bytes("x"));
  CHECK(Sha256().update(digest).finish() == sha256(digest.view()));
}

}  // namespace
}  // namespace dgx::crypto
