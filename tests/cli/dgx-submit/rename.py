"""Rewrites a safetensors file: rename.py IN OUT OLD_PREFIX NEW_PREFIX [ENTRY TO ADD]"""
import json
import struct
import sys

source, target, old, new = sys.argv[1:5]
data = open(source, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
numbers = data[8 + size:]
renamed = {name if name == "__metadata__" else new + name[len(old):]: item for name, item in header.items()}
if len(sys.argv) > 5:
    renamed[sys.argv[5]] = {"dtype": "F32", "shape": [1], "data_offsets": [len(numbers), len(numbers) + 4]}
    numbers += bytes(4)
text = json.dumps(renamed).encode()
open(target, "wb").write(struct.pack("<Q", len(text)) + text + numbers)
