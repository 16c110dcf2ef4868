"""Writes weights of mlp:4-8-3, all of which bfloat16 and binary16 hold exactly, in every form that --init reads, and forms that it refuses."""
import json
import os
import struct

import numpy

SHAPES = {"0.weight": (8, 4), "0.bias": (8,), "2.weight": (3, 8), "2.bias": (3,)}
WEIGHTS = {name: ((numpy.arange(numpy.prod(shape)) * 7 % 31 - 15) / 16).astype("<f4").reshape(shape) for name, shape in SHAPES.items()}


def encode(array, kind):
    if kind == "BF16":
        return (array.view("<u4") >> 16).astype("<u2").tobytes()
    return array.astype({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[kind]).tobytes()


def write(path, weights, kind="F32", prefix=""):
    header, numbers = {}, b""
    for name, array in weights.items():
        data = encode(array, kind)
        header[prefix + name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(numbers), len(numbers) + len(data)]}
        numbers += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + numbers)


def folder(name, parts, listed=None, prefix=""):
    """Parts: file by file, the names of its weights. `listed`: changes of the index's map."""
    os.mkdir(name)
    places = {}
    for file, names in parts.items():
        write(f"{name}/{file}", {each: WEIGHTS[each] for each in names}, prefix=prefix)
        places.update({prefix + each: file for each in names})
    places.update(listed or {})
    with open(f"{name}/model.safetensors.index.json", "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": 4 * sum(each.size for each in WEIGHTS.values()), "share": 0.5}, "weight_map": places}, file, indent=2)


ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
HALVES = {ONE: ["0.weight", "0.bias"], TWO: ["2.weight", "2.bias"]}
for each in ("F32", "F16", "BF16", "F64"):
    write(f"{each}.safetensors", WEIGHTS, each)
write("prefix.safetensors", WEIGHTS, prefix="net.body.")
write("other.safetensors", {**WEIGHTS, "net.0.bias": WEIGHTS["0.bias"]})
write("twice.safetensors", {**WEIGHTS, "model/0.bias": WEIGHTS["0.bias"]})
os.mkdir("single")
write("single/model.safetensors", WEIGHTS, "BF16")
folder("shards", HALVES)
folder("prefixed", HALVES, prefix="net.")
folder("both", HALVES)
write("both/model.safetensors", WEIGHTS)
folder("outside", HALVES, {"0.bias": "../F32.safetensors"})
folder("absolute", HALVES, {"0.bias": "/F32.safetensors"})
folder("hidden", HALVES, {"0.bias": "..safetensors"})
folder("number", HALVES, {"0.bias": 1})
folder("moved", HALVES, {"0.bias": TWO})
folder("absent", HALVES, {"4.bias": TWO})
folder("lost", HALVES, {"4.bias": "gone.safetensors"})
folder("again", {ONE: ["0.weight", "0.bias"], TWO: ["0.bias", "2.weight", "2.bias"]})
for name, text in (("cut", '{"weight_map": {"0.bias": '), ("list", '{"weight_map": []}'), ("same", '{"weight_map": {"a": "b.safetensors", "a": "b.safetensors"}}')):
    os.mkdir(name)
    with open(f"{name}/model.safetensors.index.json", "w", encoding="utf-8") as file:
        file.write(text)
