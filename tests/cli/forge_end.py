"""The payload of a proof, honest.json, with another digest in place of one of its ends: forge_end.py initial|final."""

import base64
import json
import sys

payload = json.loads(base64.b64decode(json.load(open("honest.json"))["payload"]))
payload["predicate"][sys.argv[1]] = "11" * 32
for subject in payload["subject"]:
    if subject["name"] == sys.argv[1]:
        subject["digest"]["sha256"] = "11" * 32
sys.stdout.write(json.dumps(payload, sort_keys=True, separators=(",", ":")))
