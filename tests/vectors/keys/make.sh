#!/bin/sh
# Keys as others write them: one Ed25519 key, whose seed is 00 01 … 1f, in each form that dgx reads, and what it refuses. Run in this
# folder; needs openssl and ssh-keygen. Salts and check numbers are random, so that a second run gives other bytes of the same keys.
set -eu
PASS=pass:horse
(printf 302e020100300506032b657004220420; for i in $(seq 0 31); do printf %02x "$i"; done) | xxd -r -p > seed.der
openssl pkey -inform DER -in seed.der -out plain.pem
openssl pkey -in plain.pem -pubout -out plain.pub.pem
rm seed.der

# The forms of openssl's genpkey and pkey, of pkcs8 with its own choices, and of scrypt.
openssl pkey -in plain.pem -aes-256-cbc -passout $PASS -out aes256.pem
openssl pkcs8 -topk8 -in plain.pem -v2 aes-128-cbc -v2prf hmacWithSHA512 -iter 100000 -passout $PASS -out aes128-sha512.pem
openssl pkcs8 -topk8 -in plain.pem -v2 aes-192-cbc -v2prf hmacWithSHA1 -passout $PASS -out aes192-sha1.pem
openssl pkcs8 -topk8 -in plain.pem -scrypt -passout $PASS -out scrypt.pem
# Refused: another cipher, a cost that would take minutes, another type of key.
openssl pkcs8 -topk8 -in plain.pem -v2 des3 -passout $PASS -out refused-des3.pem
openssl pkcs8 -topk8 -in plain.pem -v2 aria-128-cbc -passout $PASS -out refused-aria.pem
openssl pkcs8 -topk8 -in plain.pem -iter 10000001 -passout $PASS -out refused-iterations.pem
openssl genpkey -algorithm x25519 -out refused-x25519.pem
openssl genpkey -algorithm x25519 -aes-256-cbc -pass $PASS -out refused-x25519-aes256.pem
openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:1024 -out refused-rsa.pem 2> /dev/null
openssl ecparam -name prime256v1 -genkey -noout -out refused-ec.pem

# OpenSSH's private key is made from the seed by its own layout; ssh-keygen reads it, and writes it anew.
python3 - << 'END'
import base64, struct
string = lambda b: struct.pack(">I", len(b)) + b
seed = bytes(range(32))
spki = base64.b64decode("".join(open("plain.pub.pem").read().splitlines()[1:-1]))
public = string(b"ssh-ed25519") + string(spki[-32:])
private = struct.pack(">II", 7, 7) + public + string(seed + spki[-32:]) + string(b"alice@example.org")
private += bytes(range(1, 8))[:-len(private) % 8]
content = b"openssh-key-v1\0" + string(b"none") + string(b"none") + string(b"") + struct.pack(">I", 1) + string(public) + string(private)
digits = base64.b64encode(content).decode()
lines = [digits[i:i + 70] for i in range(0, len(digits), 70)]
with open("id_ed25519", "w") as file:
    file.write("\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""]))
END
chmod 600 id_ed25519
ssh-keygen -q -p -P '' -N '' -f id_ed25519
ssh-keygen -y -f id_ed25519 > id_ed25519.pub
cp id_ed25519 id_bcrypt
ssh-keygen -q -p -N horse -f id_bcrypt
ssh-keygen -q -t ecdsa -N '' -C '' -f id_ecdsa
