"""Trees opened in lists: dgx-dispute(7), "Trees". A node is the range of leaves below it, and its hash."""

import dataclasses

from . import digests


def width(count):
    """Leaves below each child of a node over `count` leaves: 2^m, m the largest multiple of 8 with 2^m < count."""
    m = 0
    while 1 << (m + 8) < count:
        m += 8
    return 1 << m


def ranges(count):
    """[start, end) of each child's leaves."""
    step = width(count)
    return [(start, min(start + step, count)) for start in range(0, count, step)]


def children(leaves):
    return [digests.root(leaves[start:end]) for start, end in ranges(len(leaves))]


def path(index, leaves):
    """RFC 6962, 2.1.1: from the leaf up."""
    if len(leaves) <= 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return path(index, leaves[:split]) + [digests.root(leaves[split:])]
    return path(index - split, leaves[split:]) + [digests.root(leaves[:split])]


@dataclasses.dataclass
class Node:
    """`count` leaves from leaf `start` on."""
    start: int
    count: int
    hash: bytes

    def bottom(self):
        """Whether its children are leaves, or it is one itself."""
        return width(self.count) == 1

    def child_count(self):
        return len(ranges(self.count))

    def child(self, index, hashes):
        start, end = ranges(self.count)[index]
        return Node(self.start + start, end - start, hashes[index])
