"""Vectors for the number of segments that a policy's miss_ppm draws, derived from dgx-protocol(7), DRAW, with whole numbers alone:
/usr/bin/python3 tests/vectors/draw.py > tests/vectors/draw.json"""
import json

SEGMENTS = (1, 2, 3, 7, 10, 19, 20, 24, 29, 30, 98, 100, 101, 365, 1000, 4096)
MISSES = (0, 1, 1000, 10000, 50000, 95000, 500000, 999999, 1000000)
SHARES = (1, 10000, 33333, 100000, 500000, 999999, 1000000)
# The most segments; 1 in 70 bad ones make both products as long as they get.
LARGE = ((65536, 50000, 100000), (65536, 1, 14400), (65536, 1, 1), (65536, 1000, 300), (65536, 0, 100000), (65535, 50000, 1000))


def count(segments, miss, share):
    """The least q with C(segments - bad, q) / C(segments, q) <= miss / 10^6, one more segment at a time."""
    bad = max(1, segments * share // 10**6)
    missing, draws, q = 10**6, miss, 0
    while q == 0 or missing > draws:
        missing, draws, q = missing * max(0, segments - bad - q), draws * (segments - q), q + 1
    return q


cases = [(n, miss, share) for n in SEGMENTS for miss in MISSES for share in SHARES] + list(LARGE)
rows = ",\n".join(json.dumps([*case, count(*case)], separators=(",", ":")) for case in cases)
print('{"cases":[\n' + rows + "\n]}")
