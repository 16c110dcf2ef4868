#!/usr/bin/python3
"""How much of the loops of products and dots is fma, in the machine code that ptxas made (sm_90).

usage: sass.py FOLDER MODULE

Prints, a kernel a line, the instructions of the shortest way through its loop (a round that is whole), its fma, and what it reads from local
memory. cuobjdump is in FOLDER, nvcc's, or on PATH; exits 77 where it is not installed. Fails if a loop's share of fma is less than nvcc 13.0's was, but for a little.
"""

import bisect
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

# Threads down and across, outputs of a thread down and across: share of fma in the loop of a product, of a dot.
LEAST = {"16, 16, 8, 8": (0.85, 0.82), "16, 8, 8, 8": (0.83, 0.79), "8, 16, 8, 8": (0.83, 0.79), "8, 8, 8, 8": (0.81, 0.77),
         "16, 16, 4, 4": (0.69, 0.68), "8, 16, 4, 8": (0.73, 0.70), "4, 32, 4, 8": (0.70, 0.65), "16, 16, 2, 2": (0.43, 0.41)}
LITTLE = 16  # reads of local memory in a loop


def demangled(name):
    return subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()


def target(instruction):
    branch = re.search(r"\bBRA\S*\s+.*?(0x[0-9a-f]+)", instruction)
    return int(branch[1], 16) if branch else None


def loop_of(code):
    """First and last index of the smallest loop with fma."""
    addresses = [address for address, _ in code]
    loops = []
    for last, (address, instruction) in enumerate(code):
        to = target(instruction)
        if to is None or to >= address:
            continue
        first = bisect.bisect_left(addresses, to)
        if sum("FFMA" in text for _, text in code[first:last]) >= 32:
            loops.append((last - first, first, last))
    return min(loops)[1:] if loops else None


def shortest_way(code, first, last):
    """The instructions of the shortest way from the first to the last."""
    index = {address: n for n, (address, _) in enumerate(code)}
    best = {last: (1, None)}
    for n in range(last - 1, first - 1, -1):
        instruction = code[n][1]
        to = target(instruction)
        goes_on = to is None or instruction.startswith("@") or re.search(r"BRA\S*\s+U?!?U?P", instruction)
        following = ([n + 1] if goes_on else []) + ([index[to]] if to is not None and to in index else [])
        ways = [(best[m][0] + 1, m) for m in following if m > n and m in best]
        if ways:
            best[n] = min(ways)
    way, n = [], first
    while n is not None:
        way.append(code[n][1])
        n = best[n][1]
    return way


def main():
    folder, module = sys.argv[1:]
    cuobjdump = needs.program("cuobjdump", folder)
    text = subprocess.run([cuobjdump, "-arch", "sm_90", "-sass", module], capture_output=True, text=True, check=True).stdout
    seen = failures = 0
    for function in re.split(r"\t\tFunction : ", text)[1:]:
        name = function.split("\n")[0]
        if "run_product" not in name and "run_dot" not in name:
            continue
        name = demangled(name).replace("dgx::kernels::cuda::", "")
        code = [(int(m[1], 16), m[2].strip()) for m in re.finditer(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);", function)]
        loop = loop_of(code)
        way = shortest_way(code, *loop) if loop else []
        fma, local = sum("FFMA" in i for i in way), sum("LDL" in i for i in way)
        least = LEAST[re.search(r"TileShape<([^>]*)>", name)[1]]["run_dot" in name]
        share = fma / max(len(way), 1)
        wrong = share < least or local > LITTLE
        print(f"{name}: {fma} fma of {len(way)} instructions, {share:.3f}, {local} from local memory{', WRONG' if wrong else ''}")
        seen += 1
        failures += wrong
    print(f"{seen} kernels, {failures} wrong")
    return 1 if failures or seen < 2 * len(LEAST) else 0


if __name__ == "__main__":
    sys.exit(main())
