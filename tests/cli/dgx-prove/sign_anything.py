"""An envelope around a payload that no program of dgx would sign: sign_anything.py PAYLOAD KEY."""

import base64
import json
import pathlib
import sys

from cryptography.hazmat.primitives import serialization

payload = pathlib.Path(sys.argv[1]).read_bytes().rstrip(b"\n")
key = serialization.load_pem_private_key(pathlib.Path(sys.argv[2]).read_bytes(), None)
kind = b"application/vnd.in-toto+json"
signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
keyid = json.loads(pathlib.Path("proof.json").read_text())["signatures"][0]["keyid"]
print(json.dumps({"payload": base64.b64encode(payload).decode(), "payloadType": kind.decode(),
                  "signatures": [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}]}, separators=(",", ":")))
