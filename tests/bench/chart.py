"""Draws the rows of tests/bench/run.sh --json: chart.py [ROWS.jsonl] > bench.svg

A bar is how many times as fast as its peer dgx is, on a logarithmic scale that begins at 1: to the right faster, to the left slower.
The tick is the target. Rows without a peer are left out, and so is one thread where there are two.
"""

import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from svg import Picture  # noqa: E402

# What is found in the names of a part's rows, and its title.
PARTS = [(r"^step-(?!.*avx)", "Training steps"), (r"^step-.*avx", "Training steps, both sides held to AVX2"),
         (r"^product-(square|gpt).*\d$", "Matrix products"), (r"^convolution-", "Convolutions"),
         (r"^function-", "Elementary functions, which libtorch does not round correctly"), (r"^sha256", "Hashing")]

# The first rule whose patterns are found in a row's name and its peer's says what was aimed at (with two threads).
TARGETS = [(r"^step-.*-avx2$", r"", 1.0), (r"^step-mlp", r"", 2.5), (r"^step-gpt", r"", 2.0), (r"^step-resnet", r"channels last", 1.3),
           (r"^step-resnet", r"", 1.5), (r"^product-square", r"OpenBLAS", 0.95), (r"^product-square(?!.*avx)", r"libtorch", 2.0)]

LABEL, WIDTH, RIGHT, ROW, HEAD = 330, 420, 70, 17, 30  # pixels
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def target_of(row):
    for name, peer, target in TARGETS:
        if re.search(name, row["name"]) and re.search(peer, row["peer_name"]):
            return target
    return None


def beside_best(row, rows):
    """The row beside the best of its peer with as many threads or fewer: a peer whose threads get in each other's way is given one."""
    peers = [r for r in rows if (r["name"], r["peer_name"]) == (row["name"], row["peer_name"]) and r["threads"] <= row["threads"]]
    best = (max if row["unit"] == "GF/s" else min)(peers, key=lambda r: r["peer"])
    if best is row:
        return row
    ratio = row["dgx"] / best["peer"] if row["unit"] == "GF/s" else best["peer"] / row["dgx"]
    return row | {key: best[key] for key in ("peer", "peer_spread") if key in best} | {"ratio": ratio, "peer_name": row["peer_name"] + ", one thread"}


def rows_of(pattern, rows):
    own = [row for row in rows if row["ratio"] is not None and re.search(pattern, row["name"])]
    most = {row["name"]: max(r["threads"] for r in own if r["name"] == row["name"]) for row in own}
    return [beside_best(row, own) for row in own if row["threads"] == most[row["name"]]]


def draw_row(picture, y, row, place):
    middle, ratio, target = y + ROW / 2, row["ratio"], target_of(row)
    words = f'{row["name"].split("-", 1)[-1]}, {row["peer_name"].replace("+cpu", "")}'
    picture.text(LABEL - 8, middle + 4, words if len(words) < 56 else words[:54] + "…", anchor="end")
    left, right = sorted((place(1), place(ratio)))
    picture.box(left, y + 3, max(right - left, 1), ROW - 6, "bar ours" if ratio >= 1 else "bar peer")
    if target is not None:
        picture.line(place(target), y + 1, place(target), y + ROW - 1, "mark")
    spread = max(row.get("dgx_spread", 0), row.get("peer_spread", 0)) / 2
    picture.text(LABEL + WIDTH + 8, middle + 4, f"{ratio:.2f}" + (f" ±{100 * spread:.0f} %" if spread else ""))


def draw(rows):
    parts = [(title, rows_of(pattern, rows)) for pattern, title in PARTS]
    parts = [(title, own) for title, own in parts if own]
    ends = [row["ratio"] for _, own in parts for row in own] + [t for _, own in parts for row in own if (t := target_of(row))] + [0.5, 2]
    low, high = math.log(min(ends) * 0.95), math.log(max(ends) * 1.05)
    place = lambda ratio: LABEL + (math.log(ratio) - low) / (high - low) * WIDTH
    height = sum(HEAD + ROW * len(own) for _, own in parts) + 54
    picture = Picture(LABEL + WIDTH + RIGHT + 20, height)
    picture.text(16, 20, "How many times as fast as its peer dgx is, exactly the same bits on every machine", "bold")
    y = 26
    for title, own in parts:
        threads = sorted({row["threads"] for row in own})
        picture.text(16, y + 20, f'{title}, {" or ".join(map(str, threads))} {"thread" if threads == [1] else "threads"}', "bold")
        y += HEAD
        for tick in TICKS:
            if low < math.log(tick) < high:
                picture.line(place(tick), y, place(tick), y + ROW * len(own), "axis" if tick == 1 else "grid")
        for row in own:
            draw_row(picture, y, row, place)
            y += ROW
    for tick in TICKS:
        if low < math.log(tick) < high:
            picture.text(place(tick), y + 14, f"{tick:g}×", "faint", "middle")
    picture.text(16, y + 14, "slower ← 1× → faster; a tick is the target", "faint")
    return picture.dump()


def main():
    text = open(sys.argv[1]).read() if len(sys.argv) > 1 else sys.stdin.read()
    rows = [row for row in map(json.loads, (line for line in text.splitlines() if line.startswith("{"))) if "name" in row]
    if not any(row["ratio"] is not None for row in rows):
        sys.exit("chart.py: no row has a peer")
    sys.stdout.write(draw(rows))


if __name__ == "__main__":
    main()
