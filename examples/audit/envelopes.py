"""The first part of audit.sh: takes each envelope of a transcript, and of a ruling, apart: envelopes.py FOLDER DISPUTE.jsonl [RULING.json]

Writes payload, signature and key of each, which openssl then verifies. Takes the bytes that dgx-referee takes and no others: a line changed on its
way is refused, since an envelope has exactly one text (dgx-manifest(5), STRICTNESS)."""

import base64
import hashlib
import json
import pathlib
import sys

MAX_BYTES, MAX_LINES = 8 << 20, 1024  # dgx-dispute(7), TRANSCRIPTS
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# The points of Ed25519 whose order is 8 or less (a sign bit may be set besides).
SMALL = {y[:-2] + f"{int(y[-2:], 16) | sign:02x}" for sign in (0, 128) for y in (
    "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "ed" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f")}


def canonical(value):
    """Canonical JSON, dgx-manifest(5)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def refused(text):
    raise ValueError(text)


def lines_of(path):
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    *lines, rest = data.split(b"\n")
    if len(data) > MAX_BYTES or len(lines) > MAX_LINES:
        refused(f"more than {MAX_BYTES} bytes or {MAX_LINES} lines")
    if rest:
        refused(f"line {len(lines) + 1}: no newline at its end")
    return lines


def statement_id(payload):
    """The hash of what is signed."""
    return hashlib.sha256(b"DSSEv1 %d %s %d " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload)) + payload).hexdigest()


def take_apart(line, at):
    """Writes what is in an envelope to files `at`.*, if that is not None, and returns its payload."""
    if not line:
        refused("is empty; remove the line")
    if line.endswith(b"\r"):
        refused("ends in CR LF, as mail leaves it; sed 's/\\r$//' gives the lines that were signed")
    envelope = json.loads(line)
    payload, entry = base64.b64decode(envelope["payload"]), envelope["signatures"][0]
    signature, key_id = base64.b64decode(entry["sig"]), entry["keyid"]
    entry = {"keyid": key_id, "sig": base64.b64encode(signature).decode()}
    if canonical({"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [entry]}) != line:
        refused("not an envelope in canonical JSON")
    statement = json.loads(payload, parse_float=refused, parse_constant=refused)
    if canonical(statement) != payload:
        refused("its payload is not canonical JSON")
    public = statement["predicate"]["signer"]
    if bytes.fromhex(public).hex() != public or len(public) != 64:
        refused("signer: not a public key")
    if public in SMALL:
        refused("a key of small order, under which openssl would accept what nobody has signed")
    key = {"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}
    if hashlib.sha256(canonical(key)).hexdigest() != key_id:
        refused("the key id is not that of the signer's key")
    if at is None:
        return payload
    at.with_suffix(".b64").write_text(envelope["payload"])
    at.with_suffix(".sig").write_bytes(signature)
    spki = bytes.fromhex("302a300506032b6570032100" + public)  # what comes before an Ed25519 key in SubjectPublicKeyInfo
    at.with_suffix(".pem").write_text(f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(spki).decode()}\n-----END PUBLIC KEY-----\n")
    at.with_suffix(".keyid").write_text(key_id)
    return payload


def main(work, dispute, ruling=None):
    path, number, seen = dispute, None, set()
    try:
        lines = lines_of(dispute)
        for number, line in enumerate(lines):
            payload = take_apart(line, work / f"{number:04}")
            if payload in seen:
                refused("repeats an earlier statement")
            seen.add(payload)
        path, number = ruling, None
        if ruling:
            envelopes = lines_of(ruling)
            if len(envelopes) != 1:
                refused("is not one envelope")
            take_apart(envelopes[0], work / f"{len(lines):04}")
    except Exception as error:  # whatever is wrong with it, it is no transcript
        where = path if number is None else f"{path}: line {number + 1}"
        why = error.strerror if isinstance(error, OSError) else error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        sys.exit(f"{where}: {why}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
