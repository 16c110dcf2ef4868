"""Writes a safetensors file again, changed in one way: tamper_model.py IN OUT CHANGE. It shares no code with dgx, nor with safetensors."""

import json
import struct
import sys

source, target, change = sys.argv[1:]
data = open(source, "rb").read()
(size,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8 : 8 + size])
metadata = header.pop("__metadata__")
numbers = {name: data[8 + size + item["data_offsets"][0] : 8 + size + item["data_offsets"][1]] for name, item in header.items()}


def set_entries(edit):
    entries = json.loads(metadata["dgx.entries"])
    edit(entries)
    metadata["dgx.entries"] = json.dumps(entries, sort_keys=True, separators=(",", ":"))


def put(name, at, what):
    numbers[name] = numbers[name][:at] + what + numbers[name][at + len(what) :]


def swap(a, b):
    header[a], header[b], numbers[a], numbers[b] = header[b], header[a], numbers[b], numbers[a]


def drop(name):
    del header[name], numbers[name]


def add(name):
    header[name], numbers[name] = {"dtype": "F32", "shape": [1]}, b"\0\0\0\0"


def leave_out(name):
    drop(name)
    set_entries(lambda entries: entries.pop("model/" + name))


CHANGES = {
    "same": lambda: None,
    "order": lambda: None,
    "bit": lambda: put("0.weight", 0, bytes([numbers["0.weight"][0] ^ 1])),
    "nan": lambda: put("0.weight", 4, struct.pack("<I", 0x7FC00001)),
    "swap": lambda: swap("0.weight", "2.weight"),
    "shape": lambda: header["0.weight"].update(shape=header["0.weight"]["shape"][::-1]),
    "dtype": lambda: header["0.bias"].update(dtype="U8", shape=[len(numbers["0.bias"])]),
    "f16": lambda: header["0.bias"].update(dtype="F16", shape=[len(numbers["0.bias"]) // 2]),
    "drop": lambda: drop("2.bias"),
    "add": lambda: add("3.bias"),
    "leave-out": lambda: leave_out("2.bias"),
    "entry": lambda: set_entries(lambda entries: entries["loss"].__setitem__(2, "0" * 64)),
    "rename-entry": lambda: set_entries(lambda entries: entries.update({"model/lost": entries.pop("loss")})),
    "entries-text": lambda: metadata.update({"dgx.entries": "[]"}),
    "entries-shape": lambda: set_entries(lambda entries: entries["loss"].__setitem__(1, [1 << 52, 1 << 52])),
    "no-entries": lambda: metadata.pop("dgx.entries"),
    "state-word": lambda: metadata.update({"dgx.state": "0" * 64}),
    "overlap": lambda: None,
    "twice": lambda: None,
    "huge": lambda: None,
}
CHANGES[change]()
body = b""
for name in sorted(numbers, reverse=change == "order"):
    header[name]["data_offsets"] = [len(body), len(body) + len(numbers[name])]
    body += numbers[name]
if change == "overlap":
    header["2.bias"]["data_offsets"] = [0, len(numbers["2.bias"])]
header["__metadata__"] = metadata
names = sorted(header, reverse=change == "order")
text = json.dumps({name: header[name] for name in names}).encode()
if change == "twice":
    text = text[:-1] + b', "2.bias": ' + json.dumps(header["2.bias"]).encode() + b"}"
text += b" " * (-len(text) % 8)
length = 1 << 40 if change == "huge" else len(text)
open(target, "wb").write(struct.pack("<Q", length) + text + body)
