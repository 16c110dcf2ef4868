"""The root over PROOF.states, by hashlib, compared with the signed one: RFC 6962 with leaves 0x00 0x04 digest."""

import base64
import hashlib
import json
import sys


def tree(leaves):
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + tree(leaves[:split]) + tree(leaves[split:])).digest()


proof = json.loads(base64.b64decode(json.load(open(sys.argv[1]))["payload"]))["predicate"]
data = open(sys.argv[1].replace(".json", ".states"), "rb").read()
states = [data[i:i + 32] for i in range(0, len(data), 32)]
root = tree([hashlib.sha256(b"\x00\x04" + state).digest() for state in states])
assert root.hex() == proof["states"]["root"] and len(states) == proof["states"]["count"]
assert states[0].hex() == proof["initial"] and states[-1].hex() == proof["final"]
print("the root is that of", len(states), "states")
