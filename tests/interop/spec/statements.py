"""Signed statements: dgx-manifest(5). DSSE envelopes around in-toto statements, Ed25519."""

import base64
import hashlib
import json

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def canonical(value):
    """RFC 8785 for what statements hold: ASCII, integers, strings, no floats."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def pre_authentication(body):
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(body), body)


def key_id(public_hex):
    key = {"keytype": "ed25519", "keyval": {"public": public_hex}, "scheme": "ed25519"}
    return hashlib.sha256(canonical(key)).hexdigest()


class Statement:
    """An envelope's parts; raises ValueError with what is wrong."""

    def __init__(self, text):
        envelope = json.loads(text)
        if set(envelope) != {"payload", "payloadType", "signatures"} or len(envelope["signatures"]) != 1:
            raise ValueError("not a strict envelope")
        self.body = base64.b64decode(envelope["payload"], validate=True)
        self.signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        self.key_id = envelope["signatures"][0]["keyid"]
        content = json.loads(self.body)
        if canonical(content) != self.body or canonical(envelope) != text.rstrip(b"\n"):
            raise ValueError("not canonical")
        if envelope["payloadType"] != PAYLOAD_TYPE or content["_type"] != "https://in-toto.io/Statement/v1":
            raise ValueError("another type")
        self.kind = content["predicateType"]
        self.predicate = content["predicate"]
        self.subjects = {subject["name"]: subject["digest"]["sha256"] for subject in content["subject"]}
        self.signed = pre_authentication(self.body)
        self.id = hashlib.sha256(self.signed).hexdigest()
        self._check_signature()

    def _check_signature(self):
        public = self.predicate["signer"]
        if key_id(public) != self.key_id:
            raise ValueError("the signer is not the key id's key")
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(self.signature, self.signed)
        except InvalidSignature as error:
            raise ValueError("bad signature") from error


def read(path):
    with open(path, "rb") as file:
        return Statement(file.read())
