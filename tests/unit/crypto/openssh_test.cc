#include <catch2/catch.hpp>

#include "dgx/crypto/key_file.h"
#include "replaced.h"
#include "stored_keys.h"

namespace dgx::crypto {
namespace {

using test::pem_block;
using test::replaced;
using test::stored_content;
using test::stored_key;

Error refused_public(std::string_view text) {
  const auto key = parse_public_key(text);
  REQUIRE_FALSE(key.ok());
  CHECK(key.error().code == ErrorCode::kMalformed);
  return key.error();
}

PublicKey the_key() { return *parse_public_key(stored_key("plain.pub.pem")); }

TEST_CASE("a public key of ssh-keygen is the same key as its PEM, with or without a comment") {
  const std::string line = stored_key("id_ed25519.pub");
  CHECK(is_public_key(line));
  CHECK(*parse_public_key(line) == the_key());
  CHECK(*parse_public_key(line.substr(0, line.size() - 1)) == the_key());
  CHECK(*parse_public_key(replaced(line, " alice@example.org\n", "\r\n")) == the_key());
  CHECK(*parse_public_key(replaced(line, "alice@example.org", "a comment of words")) == the_key());
}

TEST_CASE("a public key of OpenSSH that is of another type, damaged, or not alone, is malformed") {
  const std::string line = stored_key("id_ed25519.pub");
  CHECK(refused_public(stored_key("id_ecdsa.pub")).message ==
        "is an ecdsa-sha2-nistp256 key, expected ssh-ed25519");
  CHECK(refused_public(replaced(line, "ssh-ed25519", "ssh-rsa")).message ==
        "is an ssh-rsa key, expected ssh-ed25519");
  CHECK(refused_public(line + line).message == "has more than one line, expected one public key");
  CHECK(refused_public(replaced(line, "AAAAC3", "AAAAC")).message.find("base64") != std::string::npos);
  CHECK(refused_public(replaced(line, "AAAAC3", "AAAAD3")).message ==
        "is an unknown key, expected ssh-ed25519");
  CHECK(refused_public(replaced(line, "AAAAIA", "AAAAHA")).message.find("28 bytes, expected 32") !=
        std::string::npos);
  CHECK(refused_public("ssh-ed25519 ").message.find("byte 0") != std::string::npos);
  CHECK(refused_public("ssh-ed25519 AAAA").message.find("within a number") != std::string::npos);
  // The identity point, which is nobody's key.
  const std::string nobody = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAE" + std::string(41, 'A');
  CHECK(refused_public(nobody).message.find("not a valid Ed25519 key") != std::string::npos);
  CHECK_FALSE(is_public_key("ssh-ed25519"));
  CHECK_FALSE(is_public_key(" ssh-ed25519 AAAA"));
}

TEST_CASE("a private key of ssh-keygen is read, and one that it encrypted says how to go on") {
  const std::string pem = stored_key("id_ed25519");
  CHECK(is_openssh_private_key(pem));
  CHECK_FALSE(is_encrypted_key(pem));
  const auto key = parse_secret_key(pem);
  REQUIRE(key.ok());
  CHECK(key->public_key() == the_key());
  CHECK(parse_public_key(pem).error().message == "is a private key, expected a public key");
  const Error locked = parse_secret_key(stored_key("id_bcrypt"), "horse").error();
  CHECK(locked.code == ErrorCode::kUnauthorised);
  CHECK(locked.hint.find("ssh-keygen -p") != std::string::npos);
  CHECK_FALSE(is_encrypted_key(stored_key("id_bcrypt")));
  CHECK(parse_secret_key(stored_key("id_ecdsa")).error().message ==
        "is an ecdsa-sha2-nistp256 key, expected ssh-ed25519");
}

constexpr const char* kLabel = "OPENSSH PRIVATE KEY";

ByteWriter& put(ByteWriter& out, ByteView string) {
  return out.u32(static_cast<std::uint32_t>(string.size())).raw(string);
}

/// A private key in OpenSSH's layout, with what a test may damage.
struct Parts {
  std::string magic{"openssh-key-v1\0", 15};
  std::string options = {};
  std::uint32_t count = 1;
  std::uint32_t again = 7;
  PublicKey listed = the_key();
  PublicKey of_pair = the_key();
  Bytes padding{1, 2, 3, 4, 5, 6};
  std::string after = {};

  [[nodiscard]] std::string pem() const {
    Seed seed;
    for (std::size_t i = 0; i < seed.size(); ++i) seed[i] = static_cast<std::uint8_t>(i);
    ByteWriter outside;
    put(put(outside, as_bytes("ssh-ed25519")), the_key().bytes);
    ByteWriter inside;
    inside.u32(7).u32(again);
    put(put(inside, as_bytes("ssh-ed25519")), listed.bytes);
    inside.u32(64).raw(seed).raw(of_pair.bytes);
    put(inside, as_bytes("comment")).raw(padding);
    ByteWriter all;
    all.text(magic);
    put(put(put(all, as_bytes("none")), as_bytes("none")), as_bytes(options)).u32(count);
    put(put(all, outside.bytes()), inside.bytes()).text(after);
    return pem_block(kLabel, all.bytes());
  }
};

TEST_CASE("an OpenSSH private key is refused, with the byte, if any of its parts is not as it must be") {
  CAPTURE(Parts().pem());
  REQUIRE(parse_secret_key(Parts().pem()).ok());
  PublicKey other = the_key();
  other.bytes[5] ^= 1;
  const auto refused = [](const Parts& parts, std::string_view why) {
    const auto key = parse_secret_key(parts.pem());
    CAPTURE(why);
    REQUIRE_FALSE(key.ok());
    CHECK(key.error().code == ErrorCode::kMalformed);
    CHECK(key.error().message.find(why) != std::string::npos);
  };
  refused({.magic = "openssh-key-v2"}, "does not begin with openssh-key-v1");
  refused({.options = "x"}, "more than one key");
  refused({.count = 2}, "2 keys, expected one");
  refused({.again = 8}, "the check numbers differ");
  refused({.listed = other}, "not that of the public key");
  refused({.of_pair = other}, "not that of the public key");
  refused({.padding = {1, 2, 3, 4, 5, 7}}, "padding");
  refused({.padding = {1, 2, 3}}, "no whole number of blocks");
  refused({.padding = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}}, "padding");
  refused({.after = "x"}, "more than one key");
}

TEST_CASE("an OpenSSH private key that is cut anywhere is refused") {
  const Bytes content = stored_content("id_ed25519");
  REQUIRE(parse_secret_key(pem_block(kLabel, content)).ok());
  for (std::size_t size = 0; size < content.size(); ++size) {
    CAPTURE(size);
    const auto key = parse_secret_key(pem_block(kLabel, ByteView(content).first(size)));
    REQUIRE_FALSE(key.ok());
    CHECK(key.error().code == ErrorCode::kMalformed);
  }
}

}  // namespace
}  // namespace dgx::crypto
