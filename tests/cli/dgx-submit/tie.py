"""Renames or adds an entry of a safetensors file: tie.py IN OUT NAME NEW [keep|differ]

Without a last word NAME becomes NEW. With "keep" the same numbers have both names; with "differ" those of NEW are others.
"""
import json
import struct
import sys

source, target, name, new = sys.argv[1:5]
how = sys.argv[5] if len(sys.argv) > 5 else "rename"
data = open(source, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
numbers = data[8 + size:]
entry = dict(header[name])
begin, end = entry["data_offsets"]
if how == "rename":
    del header[name]
else:
    entry["data_offsets"] = [len(numbers), len(numbers) + end - begin]
    copy = numbers[begin:end]
    numbers += copy if how == "keep" else copy[::-1]
header[new] = entry
text = json.dumps(header).encode()
open(target, "wb").write(struct.pack("<Q", len(text)) + text + numbers)
