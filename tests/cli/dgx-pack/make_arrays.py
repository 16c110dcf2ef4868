#!/usr/bin/python3
"""Writes arrays and tensors of every type that dgx-pack reads, and some that it does not."""

import io
import json
import struct
import warnings
import zipfile

import numpy as np

warnings.simplefilter("ignore")  # zipfile's, of two members with one name
X = np.arange(12).reshape(4, 3) / 8
Y = np.array([0, 1, 2, 1])


def safetensors(path, tensors):
    head, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


np.savez("plain.npz", x=X.astype("f4"), y=Y)
np.savez_compressed("packed.npz", x=X.astype("f4"), y=Y, f64=X)
for kind in ("f8", "f4", "f2"):
    np.save(f"x{kind}.npy", X.astype(kind))
np.save("third.npy", X / 3)
np.save("huge.npy", X * 1e300)
np.save("bool.npy", X > 0.5)
np.save("y.npy", Y)
tokens = np.arange(10) * 7000 % 60000
np.save("t.npy", tokens.astype("u2"))
tokens.astype("<u2").tofile("t.u16")
tokens.astype("<u4").tofile("t.u32")
safetensors("s.safetensors", {
    "x": ("BF16", [2, 2], struct.pack("<4H", 0x3F80, 0xBF80, 0x4000, 0)), "y": ("U16", [2], struct.pack("<2H", 0, 1)),
    "d": ("F64", [2], struct.pack("<2d", 0.1, 2)), "b": ("BOOL", [2], b"\1\0"), "w": ("U64", [2], bytes(16)), "f8": ("F8_E4M3", [2], bytes(2))})

# Tensors that share bytes, bytes of no tensor, and a header that is longer than the file.
for name, places in (("overlap", ([0, 4], [2, 4])), ("gap", ([0, 4], [6, 8]))):
    text = json.dumps({key: {"dtype": "U8", "shape": [place[1] - place[0]], "data_offsets": place} for key, place in zip("xy", places)}).encode()
    open(name + ".safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(places[1][1]))
open("long.safetensors", "wb").write(struct.pack("<Q", 1 << 62) + b"{}")

# Archives that are not what they state: a flipped bit of the numbers, fewer and more of them, an end cut off, a member that is no array.
whole = open("plain.npz", "rb").read()
at = whole.index(npy(X.astype("f4"))[-48:])
open("flipped.npz", "wb").write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
open("cut.npz", "wb").write(whole[:-30])
with zipfile.ZipFile("odd.npz", "w") as archive:
    archive.writestr("x.npy", npy(X.astype("f4"))[:-4])
    archive.writestr("y.npy", npy(Y) + b"more")
    archive.writestr("z.npy", b"text")
# The last member's entry in the index is made to state four GiB of zeros, and in another archive encryption.
packed = bytearray(open("packed.npz", "rb").read())
central = packed.rindex(b"PK\1\2")
packed[central + 24:central + 28] = struct.pack("<I", 0xF0000000)
open("bomb.npz", "wb").write(packed)
locked = bytearray(whole)
for place in (locked.index(b"PK\3\4") + 6, locked.index(b"PK\1\2") + 8):
    locked[place] |= 1
open("locked.npz", "wb").write(locked)
with zipfile.ZipFile("twice.npz", "w") as archive:
    for name in ("x", "y", "x"):
        archive.writestr(name + ".npy", npy(X.astype("f4")))
with zipfile.ZipFile("both.npz", "w") as archive:  # NumPy reads the member without an ending
    for name in ("x.npy", "y.npy", "x"):
        archive.writestr(name, npy(X.astype("f4")))
with zipfile.ZipFile("lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
    archive.writestr("x.npy", npy(X.astype("f4")))
with zipfile.ZipFile("zip64.npz", "w") as archive:
    for name, array in (("x", X.astype("f4")), ("y", Y)):
        with archive.open(name + ".npy", "w", force_zip64=True) as member:
            member.write(npy(array))
