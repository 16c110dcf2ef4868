#include "dgx/crypto/sha256.h"

#include <catch2/catch.hpp>

#include "sha256_each.h"

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

/// sha256_each() one message after another.
std::vector<Digest> each_by_itself(std::uint8_t prefix, ByteView data, std::size_t count) {
  std::vector<Digest> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(sha256({&prefix, 1}, data.subspan(i * (data.size() / count), data.size() / count)));
  return out;
}

Bytes some_bytes(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * i / 7 + i * 31);
  return bytes;
}

TEST_CASE("messages in the lanes of every instruction set hash as one by one") {
  // Every length around one and two blocks, where the padding begins, ends and takes a block of its own.
  for (const LaneCompressor& compressor : lane_compressors()) {
    for (std::size_t size = 0; size <= 200; ++size) {
      for (std::size_t count = 1; count <= compressor.lanes; count += size % 3 + 1) {
        const Bytes data = some_bytes(size * count);
        std::vector<Digest> out(count);
        sha256_in_lanes(compressor, static_cast<std::uint8_t>(size), data, out);
        INFO(compressor.lanes << " lanes, " << count << " messages of 1 + " << size << " bytes");
        CHECK(out == each_by_itself(static_cast<std::uint8_t>(size), data, count));
      }
    }
  }
}

TEST_CASE("any number of messages of one length hash as one by one") {
  for (std::size_t count = 0; count <= 70; ++count) {
    const Bytes data = some_bytes(1024 * count);
    std::vector<Digest> out(count);
    sha256_each(0, data, out);
    CHECK(out == each_by_itself(0, data, count));
  }
}

TEST_CASE("digests may replace the beginning of what they are the digests of") {
  for (std::size_t count = 1; count <= 70; ++count) {
    std::vector<Digest> nodes(2 * count);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = sha256(some_bytes(i));
    const ByteView data(reinterpret_cast<const std::uint8_t*>(nodes.data()), 64 * count);
    const std::vector<Digest> expected = each_by_itself(1, data, count);
    sha256_each(1, data, std::span(nodes).first(count));
    nodes.resize(count);
    CHECK(nodes == expected);
  }
}

}  // namespace
}  // namespace dgx::crypto
