// PEM keys: an accepted text holds one key, whose own text is accepted as the same key.
// No passphrase is given: a guess costs the memory and time that the file asks for, up to the caps.

#include "dgx/crypto/key_file.h"
#include "target.h"

using namespace dgx;
using namespace dgx::crypto;

std::vector<std::string> fuzz::seeds() {
  Seed seed;
  seed.fill(7);
  const SecretKey key = SecretKey::from_seed(seed);
  Bytes encrypted(1 + 1 + 4 + 16 + 24 + 48);
  encrypted[0] = 1;
  encrypted[1] = 1;
  encrypted[5] = 8;
  const std::string label = "DGX ENCRYPTED PRIVATE KEY-----\n";
  return {public_key_pem(key.public_key()), secret_key_pem(key), key.public_key().hex(),
          "-----BEGIN " + label + to_base64(encrypted) + "\n-----END " + label};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto key = parse_public_key(text); key.ok()) {
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
