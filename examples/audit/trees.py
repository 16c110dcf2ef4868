"""Digests and trees of audit.sh: dgx-bundle(5), "Digests". H is SHA-256."""

import base64
import hashlib
import math
import struct

from arithmetic import kind_size, unpack


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u64(number):
    return struct.pack(">Q", number)


def digests(text):
    data = base64.b64decode(text)
    return [data[i:i + 32] for i in range(0, len(data), 32)]


# Trees (RFC 6962): a leaf is H(0x00 | data), a node H(0x01 | left | right).


def leaf(data):
    return sha(b"\0", data)


def root(level):
    while len(level) > 1:
        pairs = [sha(b"\1", level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs):]
    return level[0] if level else sha()


def climb(index, count, node, path, show=False):
    """The root that an audit path leads to; None if its length is another than the tree's."""
    last = count - 1
    for sibling in path:
        if last == 0:
            return None
        if index % 2 or index == last:
            node, text = sha(b"\1", sibling, node), f"H(01 | {sibling.hex()} | .)"
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            node, text = sha(b"\1", node, sibling), f"H(01 | . | {sibling.hex()})"
        index, last = index // 2, last // 2
        if show:
            print(f"    {text} = {node.hex()}")
    return node if last == 0 else None


def width(count):
    """Leaves below each child of a node over `count` leaves: the greatest 256^n below count."""
    size = 1
    while size * 256 < count:
        size *= 256
    return size


def tensor_digest(kind, shape, tree):
    return sha(bytes([2, {"f32": 1, "i64": 2, "u8": 3}[kind], len(shape)]), *map(u64, shape), tree)


def leaf_count(kind, shape):
    return -(-math.prod(shape) * kind_size(kind) // 1024)


def entry_leaf(name, tensor):
    return leaf(b"\3" + struct.pack(">H", len(name)) + name.encode() + tensor)


def entry(opened, digest=None):
    """An entry opened in a state (or in a dataset): (the state's root, whether it leads to the digest)."""
    tree = climb(opened["index"], opened["count"], entry_leaf(opened["name"], bytes.fromhex(opened["digest"])), digests(opened["path"]))
    state = sha(b"\3", u64(opened["count"]), tree or b"")
    print(f"  entry {opened['index']} of {opened['count']}, {opened['name']}, has digest {opened['digest']}; its state is {state.hex()}")
    return tree, digest is None or state == digest


def opened_leaf(opened):
    """A leaf of numbers: (its tensor's digest, its first element, its numbers)."""
    data = base64.b64decode(opened["bytes"])
    tree = climb(opened["leaf"], leaf_count(opened["t"], opened["shape"]), leaf(data), digests(opened["path"])) or b""
    return tensor_digest(opened["t"], opened["shape"], tree), opened["leaf"] * 1024 // kind_size(opened["t"]), unpack(opened["t"], data)
