"""Reads exported models with code that is not ours and compares them with the checkpoints: read_model.py X.safetensors X.npz STATE STATE."""

import json
import struct
import sys

import h5py
import numpy as np

DTYPES = {"F32": "<f4", "I64": "<i8", "U8": "|u1"}


def read_safetensors(path):
    """The format's own rules: sorted offsets without holes, header padded to 8, everything aligned."""
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    assert size % 8 == 0
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    assert all(isinstance(text, str) for text in metadata.values())
    end, out = 0, {}
    for name, item in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
        dtype = np.dtype(DTYPES[item["dtype"]])
        first, last = item["data_offsets"]
        assert first == end and first % dtype.itemsize == 0
        assert last - first == dtype.itemsize * int(np.prod(item["shape"]))
        out[name], end = np.frombuffer(data[8 + size + first : 8 + size + last], dtype).reshape(item["shape"]), last
    assert 8 + size + end == len(data)
    return out


def read_state(path):
    out = {}
    with h5py.File(path, locking=False) as file:
        model = file["state/model"]
        model.visititems(lambda name, item: out.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
    return out


def same(ours, theirs):
    return ours.keys() == theirs.keys() and all(
        ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape and ours[name].tobytes() == theirs[name].tobytes()
        for name in ours
    )


tensors, archive = read_safetensors(sys.argv[1]), dict(np.load(sys.argv[2]))
print("safetensors", sorted(tensors), same(tensors, read_state(sys.argv[3])))
print("npz", sorted(archive), same(archive, read_state(sys.argv[4])))
