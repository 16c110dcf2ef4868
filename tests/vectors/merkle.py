"""Vectors for lib/merkle, derived from the definitions with hashlib alone: python3 tests/vectors/merkle.py > tests/vectors/merkle.json"""
import hashlib
import json
import struct


def sha(data):
    return hashlib.sha256(data).digest()


def leaf(data):
    return sha(b"\x00" + data)


def split(n):
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def root(leaves):
    """MTH of RFC 6962 section 2.1, over leaf hashes."""
    if not leaves:
        return sha(b"")
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return sha(b"\x01" + root(leaves[:k]) + root(leaves[k:]))


def path(m, leaves):
    """PATH of section 2.1.1."""
    if len(leaves) <= 1:
        return []
    k = split(len(leaves))
    if m < k:
        return path(m, leaves[:k]) + [root(leaves[k:])]
    return path(m - k, leaves[k:]) + [root(leaves[:k])]


def subproof(m, leaves, known):
    """SUBPROOF of section 2.1.2."""
    n = len(leaves)
    if m == n:
        return [] if known else [root(leaves)]
    k = split(n)
    if m <= k:
        return subproof(m, leaves[:k], known) + [root(leaves[k:])]
    return subproof(m - k, leaves[k:], False) + [root(leaves[:k])]


def hexes(digests):
    return [d.hex() for d in digests]


def chunks(data):
    return [leaf(data[i:i + 1024]) for i in range(0, len(data), 1024)]


def nodes(data):
    """The roots of aligned groups of 16 leaves. Their own root must be that of all leaves, as the page says."""
    leaves = chunks(data)
    found = [root(leaves[i:i + 16]) for i in range(0, len(leaves), 16)]
    assert root(found) == root(leaves)
    return found


def tensor(dtype, dims, data):
    head = bytes([2, dtype, len(dims)]) + b"".join(struct.pack(">Q", d) for d in dims)
    return sha(head + root(chunks(data)))


def entry(name, digest):
    return leaf(b"\x03" + struct.pack(">H", len(name)) + name.encode() + digest)


def state(entries):
    return sha(b"\x03" + struct.pack(">Q", len(entries)) + root([entry(n, d) for n, d in entries]))


def pattern(size):
    """Byte i is (7 i + i // 256) mod 256: no two leaves alike for a long while."""
    return bytes((7 * i + i // 256) % 256 for i in range(size))


# The eight inputs of the Certificate Transparency test suite.
CT = [bytes.fromhex(h) for h in
      ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]]
ct = [leaf(d) for d in CT]
numbered = [leaf(struct.pack(">Q", i)) for i in range(40)]

TENSORS = [(1, [], 4), (1, [3, 5], 60), (2, [128], 1024), (2, [129], 1032), (3, [0, 4], 0), (3, [1024], 1024),
           (3, [5, 1000], 5000), (3, [2 * 1048576 + 1025], 2 * 1048576 + 1025)]
tensors = [{"dtype": t, "dims": d, "digest": tensor(t, d, pattern(n)).hex()} for t, d, n in TENSORS]
named = [("loss", tensor(1, [], pattern(4))), ("model/a", tensor(1, [3, 5], pattern(60))),
         ("model/b", tensor(2, [128], pattern(1024))), ("step", tensor(2, [], pattern(8)))]
scales = '{"x":{"scale":"0x1p-8","shift":"0x0p+0"}}'
one = sha(b"one")
program = ["{\"a\":1}", "", "{\"b\":2}"]

print(json.dumps({
    "ct_inputs": [d.hex() for d in CT],
    "ct_roots": hexes(root(ct[:n]) for n in range(9)),
    "numbered_roots": hexes(root(numbered[:n]) for n in range(41)),
    "inclusion": [{"count": n, "index": m, "path": hexes(path(m, numbered[:n]))}
                  for n, m in [(1, 0), (2, 1), (5, 4), (6, 3), (7, 0), (13, 12), (33, 32), (40, 17)]],
    "consistency": [{"old": m, "new": n, "path": hexes(subproof(m, numbered[:n], True))}
                    for m, n in [(1, 2), (3, 7), (4, 7), (6, 8), (8, 13), (17, 33), (32, 40), (40, 40)]],
    "tensors": tensors,
    "nodes": [{"bytes": n, "nodes": hexes(nodes(pattern(n)))} for n in (1, 16384, 16385, 3 * 16384 - 1, 5 * 16384 + 1025)],
    "state": {"names": [n for n, _ in named], "digest": state(named).hex(), "empty": state([]).hex()},
    "committed_state_leaf": leaf(b"\x04" + one).hex(),
    "value_leaf": leaf(b"\x05" + one).hex(),
    "ledger_leaf": leaf(b"\x06" + one + struct.pack(">Q", 1700000000123)).hex(),
    "dataset": sha(b"\x07" + root([entry(n, d) for n, d in named]) + sha(scales.encode())).hex(),
    "scales": scales,
    "program": "".join(line + "\n" for line in program),
    "program_root": root([leaf(line.encode()) for line in program]).hex(),
}, indent=1))
