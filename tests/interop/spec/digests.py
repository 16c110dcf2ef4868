"""Digests of tensors, states, datasets and programs: dgx-bundle(5), "Digests"."""

import hashlib
import json
import struct

TYPE_BYTES = {"<f4": 1, "<i8": 2, "|u1": 3}
LEAF_BYTES = 1024
NODE_LEAVES = 16
# Stands for the state after a diverging step: dgx-protocol(7), "Segments".
DIVERGED = hashlib.sha256(b"dgx-diverged").digest()


def sha(data):
    return hashlib.sha256(data).digest()


def leaf(data):
    return sha(b"\x00" + data)


def root(leaves):
    """RFC 6962 over leaf hashes. Pairs are joined level by level; a lone last one moves up, which is the same tree."""
    level = list(leaves)
    if not level:
        return sha(b"")
    while len(level) > 1:
        joined = [sha(b"\x01" + level[i] + level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = joined + level[2 * len(joined):]
    return level[0]


def root_from_path(index, count, node, path):
    """RFC 6962, 2.1.1 from the bottom: the root that an audit path leads to, or None if it has another length."""
    last = count - 1
    for sibling in path:
        if last == 0:
            return None
        if index % 2 == 1 or index == last:
            node = sha(b"\x01" + sibling + node)
            while index % 2 == 0 and index != 0:
                index, last = index // 2, last // 2
        else:
            node = sha(b"\x01" + node + sibling)
        index, last = index // 2, last // 2
    return node if last == 0 else None


def leaves_of(array):
    data = array.tobytes()
    return [leaf(data[i:i + LEAF_BYTES]) for i in range(0, len(data), LEAF_BYTES)]


def nodes(array):
    """Nodes of a tensor: the roots of its groups of 16 leaves, whose own root is the tensor's."""
    leaves = leaves_of(array)
    found = [root(leaves[i:i + NODE_LEAVES]) for i in range(0, len(leaves), NODE_LEAVES)]
    assert root(found) == root(leaves)
    return found


def tensor(array):
    leaves = leaves_of(array)
    dimensions = b"".join(struct.pack(">Q", size) for size in array.shape)
    return sha(bytes([2, TYPE_BYTES[array.dtype.str], array.ndim]) + dimensions + root(leaves))


def entries(tensors):
    """Root over named tensors, as state entries."""
    names = sorted(tensors, key=str.encode)
    return root(leaf(b"\x03" + struct.pack(">H", len(name.encode())) + name.encode() + tensor(tensors[name])) for name in names)


def state(tensors):
    return sha(b"\x03" + struct.pack(">Q", len(tensors)) + entries(tensors)).hex()


def dataset(tensors, recipe):
    return sha(b"\x07" + entries(tensors) + sha(recipe)).hex()


def run(tensors, header):
    """Of a run's index: its datasets, and the attributes beside its digest."""
    import numpy as np  # others of this module do without

    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return state({**tensors, "header": np.frombuffer(text, "|u1")})


def committed_states(digests):
    return root(leaf(b"\x04" + digest) for digest in digests).hex()


def lines(text):
    """Root of a line file: leaf i is line i without its newline."""
    assert text.endswith(b"\n")
    return root(leaf(line) for line in text[:-1].split(b"\n")).hex()
