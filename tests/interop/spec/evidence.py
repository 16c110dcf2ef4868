"""Evidence of a claim: numbers, entries and lines opened under a root that the game knows. Unproven is what evidence says that proves nothing."""

import base64
import json
import math
import struct

import numpy as np

from . import digests, trees

TYPES = {"f32": ("<f4", 1), "i64": ("<i8", 2), "u8": ("|u1", 3)}


class Unproven(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Unproven(what)


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


def decoded(text):
    """Bytes of canonical base64."""
    need(isinstance(text, str), "not base64")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Unproven("not base64") from error
    need(base64.b64encode(data).decode() == text, "not canonical base64")
    return data


def digest_list(text):
    data = decoded(text)
    need(len(data) % 32 == 0, "not a list of digests")
    return [data[i:i + 32] for i in range(0, len(data), 32)]


def digest(text):
    need(isinstance(text, str) and len(text) == 64 and not set(text) - set("0123456789abcdef"), "not a digest")
    return bytes.fromhex(text)


def fields(thing, names):
    need(isinstance(thing, dict) and set(thing) == set(names), f"fields other than {sorted(names)}")
    return [thing[name] for name in names]


def root_of(index, count, leaf, path):
    need(is_integer(index) and is_integer(count) and index < count and len(path) <= 64, "no place in a tree")
    root = digests.root_from_path(index, count, leaf, path)
    need(root is not None, "a path of another length")
    return root


def table_leaf(tensor):
    return digests.leaf(b"\x05" + tensor)


def entry_leaf(name, tensor):
    need(isinstance(name, str) and name.isascii() and 1 <= len(name) <= 512, "not an entry's name")
    return digests.leaf(b"\x03" + struct.pack(">H", len(name)) + name.encode() + tensor)


def state_digest(count, root):
    return digests.sha(b"\x03" + struct.pack(">Q", count) + root)


def tensor_digest(kind, shape, root):
    need(kind in TYPES and isinstance(shape, list) and len(shape) <= 8 and all(is_integer(size) for size in shape), "no type and shape")
    return digests.sha(bytes([2, TYPES[kind][1], len(shape)]) + b"".join(struct.pack(">Q", size) for size in shape) + root)


def byte_count(kind, shape):
    return math.prod(shape) * np.dtype(TYPES[kind][0]).itemsize


def leaf_count(kind, shape):
    return -(-byte_count(kind, shape) // digests.LEAF_BYTES)


def leaf_bytes(kind, shape, leaf):
    return min(digests.LEAF_BYTES, byte_count(kind, shape) - leaf * digests.LEAF_BYTES)


def line_of(opened, program):
    """The line that is opened, as its object; and its number."""
    index, path, text = fields(opened, ["index", "path", "text"])
    need(isinstance(text, str) and len(text.encode()) <= 3072, "a line's text")
    root = root_of(index, program["lines"], digests.leaf(text.encode()), digest_list(path))
    need(root.hex() == program["root"], "not a line of the program")
    return json.loads(text), index


class Leaf:
    """Some numbers of a tensor, opened: digest of the tensor, and the numbers of one leaf."""

    def __init__(self, opening):
        need(isinstance(opening, dict), "not an opening")
        data, leaf, path, self.shape, self.kind = (opening.get(name) for name in ("bytes", "leaf", "path", "shape", "t"))
        tensor_digest(self.kind, self.shape, b"")
        data = decoded(data)
        need(is_integer(leaf) and leaf < leaf_count(self.kind, self.shape), "no such leaf")
        need(len(data) == leaf_bytes(self.kind, self.shape, leaf), "a leaf of another length")
        root = root_of(leaf, leaf_count(self.kind, self.shape), digests.leaf(data), digest_list(path))
        self.digest = tensor_digest(self.kind, self.shape, root)
        self.numbers = np.frombuffer(data, TYPES[self.kind][0])
        self.start = leaf * digests.LEAF_BYTES // self.numbers.itemsize

    def has(self, element):
        return self.start <= element < self.start + len(self.numbers)

    def number(self, element):
        return self.numbers[element - self.start]


class Shape:
    """A tensor of which no number is opened."""

    def __init__(self, opening):
        root, self.shape, self.kind = (opening.get(name) for name in ("root", "shape", "t"))
        self.digest = tensor_digest(self.kind, self.shape, digest(root))


def wide(number):
    """As a step sees it."""
    return np.float32(number) if isinstance(number, np.float32) else np.int64(number)


class Openings:
    """What a claim's operands show of the values that a table root binds. All are looked at."""

    def __init__(self, root, lines, operands):
        self.types, self.leaves, self.proved = {}, {}, set()
        for opening in operands:
            value, own = opening["value"], (opening["t"], opening["shape"])
            need(self.types.setdefault(value, own) == own, "a value of two types")
            if "table" not in opening:
                continue
            leaf = Shape(opening) if "root" in opening else Leaf(opening)
            need(root_of(value, lines, table_leaf(leaf.digest), digest_list(opening["table"])) == root, "not of the value table")
            self.proved.add(value)
            if isinstance(leaf, Leaf):
                self.leaves.setdefault(value, []).append(leaf)

    def shape(self, value):
        need(value in self.proved, f"value {value} is not opened")
        return self.types[value][1]

    def number(self, value, element):
        for leaf in self.leaves.get(value, []):
            if leaf.has(element):
                return wide(leaf.number(element))
        raise Unproven(f"element {element} of value {value} is not opened")


class Entry:
    """An entry of a state or dataset: its place, name and tensor digest, and the root it leads to."""

    def __init__(self, opening):
        self.count, tensor, self.index, self.name, path = fields(opening, ["count", "digest", "index", "name", "path"])
        self.tensor = digest(tensor)
        self.root = root_of(self.index, self.count, entry_leaf(self.name, self.tensor), digest_list(path))

    def state(self):
        return state_digest(self.count, self.root)

    def dataset(self, scales):
        return digests.sha(b"\x07" + self.root + scales)


# Openings as a party makes them.


def base(data):
    return base64.b64encode(data).decode()


def listed(hashes):
    return base(b"".join(hashes))


def leaves_of(array):
    data = array.tobytes()
    return [digests.leaf(data[i:i + digests.LEAF_BYTES]) for i in range(0, len(data), digests.LEAF_BYTES)]


def kind_of(array):
    return {"<f4": "f32", "<i8": "i64", "|u1": "u8"}[array.dtype.str]


def open_leaf(array, leaf):
    data = array.tobytes()[leaf * digests.LEAF_BYTES:(leaf + 1) * digests.LEAF_BYTES]
    return {"bytes": base(data), "leaf": leaf, "path": listed(trees.path(leaf, leaves_of(array))), **shape_of(array)}


def shape_of(array):
    return {"shape": list(array.shape), "t": kind_of(array)}


def open_shape(array):
    return {"root": digests.root(leaves_of(array)).hex(), **shape_of(array)}


def open_entry(leaves, index):
    """`leaves`: (name, tensor digest) of all entries, in order."""
    hashes = [entry_leaf(name, tensor) for name, tensor in leaves]
    name, tensor = leaves[index]
    return {"count": len(leaves), "digest": tensor.hex(), "index": index, "name": name, "path": listed(trees.path(index, hashes))}


def open_line(texts, index):
    leaves = [digests.leaf(text) for text in texts]
    return {"index": index, "path": listed(trees.path(index, leaves)), "text": texts[index].decode()}
