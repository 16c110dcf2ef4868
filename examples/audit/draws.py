"""What rounds and secrets draw: dgx-protocol(7), DRAW to FORCED ERRORS. H is SHA-256; digests are bytes."""

import math

from trees import sha, u64

MILLION = 10**6
ZERO = bytes(32)


def lot(tag, *parts):
    """H("dgx-" tag | ...)."""
    return sha(b"dgx-" + tag.encode(), *parts)


def number(digest, first, end):
    return int.from_bytes(digest[first:end], "big")


def hits(digest, ppm):
    """Whether a lot is below a rate in parts per million."""
    return number(digest, 0, 8) < ppm * 2**64 // MILLION


def segments(task, proof):
    """The steps before and after each segment with a state after it; the diverging step is not among them."""
    every, steps = task["checkpoint_every"], proof["steps"]
    count = -(-steps // every) if proof["diverged"] else max(1, steps // every + (steps % every >= 2))
    return [(k * every, steps if k == count - 1 else (k + 1) * every) for k in range(count)]


def quota(task, count):
    """How many of `count` segments the policy draws."""
    policy, every = task["policy"], task["checkpoint_every"]
    whole = max(1, task["steps"] // every + (task["steps"] % every >= 2))
    least = 0
    if policy["miss_ppm"]:
        bad = max(1, whole * policy["miss_share_ppm"] // MILLION)
        enough = lambda k: math.comb(whole - bad, k) * MILLION <= math.comb(whole, k) * policy["miss_ppm"]  # noqa: E731
        low, least = 0, whole
        while least - low > 1:
            middle = (low + least) // 2
            low, least = (low, middle) if enough(middle) else (middle, least)
    return min(count, max(1, -(-count * policy["sample_ppm"] // MILLION), least))


def drawn_segments(task, proof, value, proof_id, key):
    """The segments of the policy's draw, ascending; a round draws for nobody's key."""
    count = len(segments(task, proof))
    wanted, found, j = quota(task, count) if count else 0, set(), 0
    found |= set(range(count)) if wanted == count else set()
    while len(found) < wanted:
        found.add(number(lot("draw", value, proof_id, key, u64(j)), 0, 8) % count)
        j += 1
    return sorted(found) + [count] * proof["diverged"]


def by_bond(digest, offers):
    """The one of (key id, bond) upon whom the first 16 bytes of a lot fall, with what there is to say about it."""
    offers = sorted(offers)
    total = sum(bond for _, bond in offers)
    ticket, begin = number(digest, 0, 16) % total, 0
    for key, bond in offers:
        if ticket < begin + bond:
            return key, f"lot {digest.hex()}, ticket {ticket} of {total}: between {begin} and {begin + bond}"
        begin += bond
    raise ValueError("no offers")


def forced_segment(task, proof, round_value, secret, proof_id, drawn):
    """The segment whose witness an acceptance must misstate, and the lot that says so; None for none."""
    found = lot("forced", round_value, secret, proof_id)
    if not hits(found, task["policy"]["forced_error_ppm"]):
        return None, found
    index, spans = drawn[number(found, 8, 16) % len(drawn)], segments(task, proof)
    return (index if index < len(spans) and spans[index][1] - spans[index][0] > 1 else None), found


def interval(steps):
    """Steps between two checkpoints of a delay."""
    return max(2**20, -(-steps // 1024))
