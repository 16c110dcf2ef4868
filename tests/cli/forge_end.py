"""The payload of a proof, honest.json, with another digest in place of one of its ends: forge_end.py initial|final. Another final state has another loss."""

import base64
import hashlib
import json
import struct
import sys


def sha(*parts):
    return hashlib.sha256(b"".join(parts))


end = sys.argv[1]
payload = json.loads(base64.b64decode(json.load(open("honest.json"))["payload"]))
digest = "11" * 32
if end == "final":  # a state that has but a loss of 0.25
    tensor = sha(b"\2\1\0", sha(b"\0", struct.pack("<f", 0.25)).digest())
    leaf = sha(b"\0\3", struct.pack(">H", 4), b"loss", tensor.digest()).digest()
    digest = sha(b"\3", struct.pack(">Q", 1), leaf).hexdigest()
    entry = {"count": 1, "digest": tensor.hexdigest(), "index": 0, "name": "loss", "path": ""}
    payload["predicate"]["loss"] = {"entry": entry, "value": "0x1p-2"}
payload["predicate"][end] = digest
for subject in payload["subject"]:
    if subject["name"] == end:
        subject["digest"]["sha256"] = digest
sys.stdout.write(json.dumps(payload, sort_keys=True, separators=(",", ":")))
