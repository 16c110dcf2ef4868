"""A segment's note with states that its owner did not compute: plant_note.py SEGMENT.json WAY. How its code is made is WAY."""

import base64
import hashlib
import json
import os
import sys

path, way = sys.argv[1:]
line, code = open(path).read().splitlines()
note = json.loads(line)
if way != "same":
    states = base64.b64decode(note["states"])
    inside = bytes(byte ^ 1 for byte in states[32:-32])  # start and end are what the solver signed
    note["states"] = base64.b64encode(states[:32] + inside + states[-32:]).decode()
changed = json.dumps(note, sort_keys=True, separators=(",", ":"))
codes = {"sha256": lambda: hashlib.sha256(changed.encode()).hexdigest(),
         "blake2b": lambda: hashlib.blake2b(changed.encode(), digest_size=32).hexdigest(),
         "other-key": lambda: hashlib.blake2b(changed.encode(), key=os.urandom(32), digest_size=32).hexdigest()}
with open(path, "w") as file:
    file.write(changed + "\n" + codes.get(way, lambda: code)() + "\n")
