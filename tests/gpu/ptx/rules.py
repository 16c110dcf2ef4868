#!/usr/bin/python3
"""What nvcc made of the kernels leaves a GPU no freedom (dgx-numerics(7), "GPUs"): every operation says that it rounds to nearest.

usage: rules.py NVCC FLAG... SOURCE     compiles SOURCE to PTX with these flags
"""

import re
import subprocess
import sys
import tempfile

# Without .rn, ptxas may contract a multiplication and an addition.
ROUNDS = re.compile(r"^(add|sub|mul|mad|fma|div|sqrt|rcp)\.(?!rn\.f).*f(32|64)\b")
FORBIDDEN = [
    (re.compile(r"\.(ftz|approx|full|sat)\b"), "flushes subnormals, or approximates"),
    (re.compile(r"^(ex2|lg2|sin|cos|tanh|rsqrt)\."), "is no function of the definition's"),
    (re.compile(r"^(min|max)\..*f(32|64)\b"), "drops a NaN"),
    (re.compile(r"^(atom|red)\..*f(16|32|64)\b"), "adds in the order of chance"),
    (re.compile(r"^(wmma|mma|wgmma|tcgen05)\."), "accumulates as the hardware likes"),
]
# a < c ? a : c, as the definition has it, where c is a constant and neither 0 nor NaN.
CHOICE = re.compile(r"^(min|max)\.f32\s+%\w+, %\w+, 0f(?![08]0000000|[7F]F[89A-F])[0-9A-F]{8};")


def problems_of(ptx):
    problems = {}
    instructions = 0
    for line in ptx.splitlines():
        whole = re.sub(r"^@!?%\w+\s+", "", line.strip())
        instruction = whole.split(" ")[0].split("\t")[0]
        if CHOICE.match(whole):
            continue
        if not re.match(r"[a-z0-9]+\.", instruction):
            continue
        instructions += 1
        if ROUNDS.match(instruction):
            problems[instruction] = "does not say that it rounds to nearest"
        for pattern, why in FORBIDDEN:
            if pattern.search(instruction):
                problems[instruction] = why
    return problems, instructions


def main():
    with tempfile.NamedTemporaryFile(suffix=".ptx") as out:
        subprocess.run([*sys.argv[1:-1], "-arch=compute_75", "-ptx", sys.argv[-1], "-o", out.name], check=True)
        with open(out.name) as file:
            problems, instructions = problems_of(file.read())
    for instruction, why in sorted(problems.items()):
        print(f"{instruction} {why}")
    print(f"{instructions} instructions, {len(problems)} forms that may not be")
    return 1 if problems or instructions < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
