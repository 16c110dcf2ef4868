// Key files: an accepted text holds one key, whose own PEM is accepted as the same key.
// No passphrase is given: a guess costs the memory and time that the file asks for, up to the caps. What is
// encrypted is parsed as far as it is before that.

#include "dgx/crypto/key_file.h"
#include "target.h"

using namespace dgx;
using namespace dgx::crypto;

namespace {

std::string pem(const std::string& label, ByteView content) {
  return "-----BEGIN " + label + "-----\n" + to_base64(content) + "\n-----END " + label + "-----\n";
}

/// PBES2 with AES-256-CBC, under PBKDF2 with HMAC-SHA-256 or under scrypt; the content is made up.
std::string encrypted(const std::string& derivation) {
  const auto tlv = [](const std::string& tag, const std::string& content) {
    return tag + to_hex(Bytes{static_cast<std::uint8_t>(content.size() / 2)}) + content;
  };
  const std::string cipher = tlv("30", "060960864801650304012a" + tlv("04", std::string(32, '5')));
  const std::string scheme = tlv("30", "06092a864886f70d01050d" + tlv("30", tlv("30", derivation) + cipher));
  return pem("ENCRYPTED PRIVATE KEY", *from_hex(tlv("30", scheme + tlv("04", std::string(64, 'a')))));
}

ByteWriter& put(ByteWriter& out, ByteView string) {
  return out.u32(static_cast<std::uint32_t>(string.size())).raw(string);
}

std::string openssh(const SecretKey& key, std::string_view cipher) {
  ByteWriter listed;
  put(put(listed, as_bytes("ssh-ed25519")), key.public_key().bytes);
  ByteWriter inside;
  inside.u32(7).u32(7).raw(listed.bytes()).u32(64).raw(key.seed()).raw(key.public_key().bytes);
  put(inside, as_bytes("comment")).raw(Bytes{1, 2, 3, 4, 5, 6});
  ByteWriter out;
  out.text("openssh-key-v1").u8(0);
  put(put(put(out, as_bytes(cipher)), as_bytes("none")), {}).u32(1);
  return pem("OPENSSH PRIVATE KEY", put(put(out, listed.bytes()), inside.bytes()).bytes());
}

std::string openssh_public(const PublicKey& key) {
  ByteWriter out;
  put(put(out, as_bytes("ssh-ed25519")), key.bytes);
  return "ssh-ed25519 " + to_base64(out.bytes()) + " alice@example.org\n";
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  Seed seed;
  seed.fill(7);
  const SecretKey key = SecretKey::from_seed(seed);
  const std::string pbkdf2 =
      "06092a864886f70d01050c301c0408111111111111111102020800300c06082a864886f70d02090500";
  const std::string scrypt = "06092b06010401da47040b30140408111111111111111102024000020108020101";
  return {public_key_pem(key.public_key()),
          secret_key_pem(key),
          key.public_key().hex(),
          encrypted(pbkdf2),
          encrypted(scrypt),
          openssh(key, "none"),
          openssh(key, "aes256-ctr"),
          openssh_public(key.public_key())};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto key = parse_public_key(text); key.ok()) {
    fuzz::require(is_public_key(text), "an accepted public key is told by its beginning");
    fuzz::require(valid_public_key(*key), "an accepted public key is somebody's");
    const auto again = parse_public_key(public_key_pem(*key));
    fuzz::require(again.ok() && *again == *key, "a public key's own text is that key");
  }
  if (const auto key = parse_secret_key(text); key.ok()) {
    fuzz::require(valid_public_key(key->public_key()), "an accepted private key is somebody's");
    const auto again = parse_secret_key(secret_key_pem(*key));
    fuzz::require(again.ok() && again->public_key() == key->public_key(),
                  "a private key's own text is that key");
  }
  if (const auto key = public_key_from_hex(text); key.ok()) {
    fuzz::require(key->hex() == text, "an accepted hex key re-encodes to itself");
  }
  return 0;
}
