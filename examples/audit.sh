#!/bin/sh
# Audits a dispute by hand: examples/audit.sh DISPUTE.jsonl [RULING.json]
#
# Needs openssl, sha256sum, base64 and python3 with its standard library, none of dgx's programs and no network. It prints each step of the
# reasoning and ends with "the statement falls" (exit 1) or "the statement stands" (exit 0). Exit 2: something is not what it should be, or the
# dispute is not over, or is about time, a demanded chunk or row, or a row of the reason "step" or "state", which need another look.
#
# The rules are those of dgx-dispute(7) and dgx-manifest(5); the arithmetic is that of dgx-numerics(7).
set -eu
if [ $# -lt 1 ]; then
  echo "usage: $0 DISPUTE.jsonl [RULING.json]" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# 1. Who says what. Each line is an envelope: {"payload":base64,"payloadType":...,"signatures":[{"keyid","sig"}]}. What is signed is
# "DSSEv1 28 application/vnd.in-toto+json LENGTH PAYLOAD", and a statement's id is the SHA-256 of just that.
python3 - "$work" "$@" <<'PYTHON'
import base64, hashlib, json, pathlib, sys
work, paths = pathlib.Path(sys.argv[1]), sys.argv[2:]
# The points of Ed25519 whose order is 8 or less (a sign bit may be set besides).
small = {y[:-2] + f"{int(y[-2:], 16) | sign:02x}" for sign in (0, 128) for y in (
    "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "ed" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f")}
lines = pathlib.Path(paths[0]).read_text().splitlines() + [line for path in paths[1:] for line in pathlib.Path(path).read_text().splitlines()]
for number, line in enumerate(lines):
    envelope = json.loads(line)
    public = json.loads(base64.b64decode(envelope["payload"]))["predicate"]["signer"]
    if public in small:
        sys.exit(f"line {number + 1}: a key of small order, under which openssl would accept what nobody has signed")
    key = json.dumps({"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}, separators=(",", ":"))
    if hashlib.sha256(key.encode()).hexdigest() != envelope["signatures"][0]["keyid"]:
        sys.exit(f"line {number + 1}: the key id is not that of the signer's key")
    at = work / f"{number:04}"
    at.with_suffix(".b64").write_text(envelope["payload"])
    at.with_suffix(".sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    spki = bytes.fromhex("302a300506032b6570032100" + public)  # what comes before an Ed25519 key in SubjectPublicKeyInfo
    at.with_suffix(".pem").write_text(f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(spki).decode()}\n-----END PUBLIC KEY-----\n")
    at.with_suffix(".keyid").write_text(envelope["signatures"][0]["keyid"])
PYTHON
echo "1. Signatures (openssl) and ids (sha256sum of what is signed)"
for b64 in "$work"/*.b64; do
  at=${b64%.b64}
  base64 -d "$b64" >"$at.payload"
  { printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(wc -c <"$at.payload" | tr -d ' ')"; cat "$at.payload"; } >"$at.signed"
  sha256sum <"$at.signed" | cut -c1-64 | tr -d '\n' >"$at.id"
  if ! openssl pkeyutl -verify -rawin -pubin -inkey "$at.pem" -in "$at.signed" -sigfile "$at.sig" >/dev/null 2>&1; then
    echo "  statement $(basename "$at"): the signature does not verify" >&2
    exit 2
  fi
  echo "  $(basename "$at")  id $(cat "$at.id")  signed by key id $(cat "$at.keyid")"
done

# 2. What follows from it.
exec python3 -B "$(dirname "$0")/audit/follow.py" "$work" "$#"
