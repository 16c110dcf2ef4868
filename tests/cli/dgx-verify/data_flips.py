"""Any bit of a dataset is flipped, and a segment verified on it: a flip in a group of 16 KiB that a row of the segment's batches lies in is refused, by
field, row and bytes; any other changes neither the verdict nor a byte of its rows: data_flips.py (in a folder with task.json, proof.json, run and data.h5)
"""

import random
import re
import subprocess

import h5py

GROUP, FLIPS = 16384, 400
REFUSED = re.compile(r"dgx-verify: error: bad\.h5: ([xy]): row (\d+): bytes (\d+) to (\d+) of the field are not those")


def verify(content):
    """Exit code, the place that is refused, and the rows."""
    with open("bad.h5", "wb") as file:
        file.write(content)
    done = subprocess.run(["dgx-verify", "task.json", "proof.json", "--from", "run", "--data", "bad.h5", "--segments", "1", "--key", "verifier.pem", "-o", "v.json",
                           "--force", "--threads", "1"], capture_output=True, text=True)
    if done.returncode == 0:
        with open("v.rows.jsonl", "rb") as file:
            return 0, None, file.read()
    found = REFUSED.match(done.stderr)
    assert done.returncode == 65 and "bad.h5: " in done.stderr, f"exit {done.returncode}: {done.stderr}"
    return 65, found and (found[1], int(found[2]), int(found[3]), int(found[4])), None


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def main():
    with open("data.h5", "rb") as file:
        content = file.read()
    with h5py.File("data.h5", "r") as file:
        places = {name: (file[name].id.get_offset(), file[name].id.get_storage_size(), file[name][0].nbytes) for name in ("x", "y")}
    honest = verify(content)
    assert honest[0] == 0, honest
    needed = {}  # groups of each field that the segment's rows lie in
    for name, (begin, size, row_bytes) in places.items():
        needed[name] = {group for group in range(-(-size // GROUP)) if verify(flipped(content, 8 * (begin + group * GROUP)))[0] == 65}
    print("x:", 0 < len(needed["x"]) < -(-places["x"][1] // GROUP), "y:", len(needed["y"]) > 0)
    numbers, inside, outside, elsewhere = random.Random(9), 0, 0, 0
    for _ in range(FLIPS):
        bit = numbers.randrange(8 * len(content))
        code, place, rows = verify(flipped(content, bit))
        assert rows in (None, honest[2]), f"bit {bit}: another verdict"
        for name, (begin, size, row_bytes) in places.items():
            if not begin <= bit // 8 < begin + size:
                continue
            byte = bit // 8 - begin
            if byte // GROUP not in needed[name]:
                assert code == 0, f"bit {bit} of {name}, which no row needs: {place}"
                outside += 1
                break
            field, row, first, last = place
            assert field == name and first <= byte <= last, f"bit {bit}, byte {byte} of {name}: {place}"
            assert row * row_bytes <= last and (row + 1) * row_bytes > first, f"bit {bit}: row {row} is not in bytes {first} to {last}"
            inside += 1
            break
        else:
            elsewhere += 1
    print("inside:", inside > 20, "outside:", outside > 100, "all:", inside + outside + elsewhere == FLIPS)


main()
