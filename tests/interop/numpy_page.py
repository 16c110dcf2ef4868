"""The second implementation against dgx-numerics(7) itself: numpy_page.py

Every scalar operation and fold has its row, the numbers that the page prints come out, and so do tests/vectors/kernels_ref.json; the
elementary functions agree with decimal arithmetic. Runs no program of dgx. Exits 77 without NumPy.
"""

import json
import math
import os
import re
import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from spec import folds, functions, inputs, numbers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
F32 = np.float32
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)


def text_of(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def section(page, title):
    start = page.index(f"# {title}\n")
    return page[start:page.index("\n# ", start + 1)]


def apply(name, *operands):
    """Of single floats."""
    return numbers.canonical(numbers.apply(name, [np.array([value], F32) for value in operands]))[0]


def bits(value):
    return "%08x" % int(np.asarray(value, F32).view(np.uint32))


def check_rows(page):
    """The page has the operations that lib/kernels/ref knows and that this implementation has, and the folds that a line may be."""
    table = section(page, "SCALAR OPERATIONS")
    rows = {name for cell in re.findall(r"^\|\[? +_([a-z0-9 ]+)_", table, re.M) for name in cell.split()}
    source = text_of("lib/kernels/ref/primitive.cc")
    known = set(re.findall(r'\{"([a-z0-9]+)", [123]\}', source))
    check(rows == known, f"operations without a row, or rows without an operation: {rows ^ known}")
    check(rows == set(numbers.OPERATIONS), f"operations of the second implementation: {rows ^ set(numbers.OPERATIONS)}")
    check(f"There are {len(rows)}." in table, "the number of operations")
    kinds = set(re.search(r"kKinds = \{(.*?)\}", source).group(1).replace('"', "").split(", "))
    named = {name for pair in re.findall(r"^\*(\w+)\*(?:, \*(\w+)\*)?$", section(page, "FOLDS"), re.M) for name in pair if name}
    check(named == kinds - {"input", "map"}, f"folds on the page: {named}")


def number(text):
    return F32(float.fromhex(text))


def check_hard_arguments(page):
    """"Arguments at which good double functions were found to fail": the table's values where it gives them, decimal elsewhere."""
    rows = re.findall(r"^\|\[? +(\w+)\n:\[? +(.*)\n:\[? +(.*)$", section(page, "ELEMENTARY FUNCTIONS").split("found to fail:")[1], re.M)
    rows = [row for row in rows if row[0] in functions.FUNCTIONS]
    check(len(rows) >= 10, f"only {len(rows)} hard arguments found on the page")
    for name, arguments, value in rows:
        for argument in re.findall(r"[±-]?0x[0-9a-fp.+-]+", arguments):
            for sign in (1, -1) if argument[0] == "±" else (1,):
                x = F32(sign) * number(argument.lstrip("±"))
                expected = exactly(name, x)
                if "0x" in value:
                    stated = number(value.lstrip("±∓"))
                    check(expected == stated * {"±": F32(sign), "∓": F32(-sign)}.get(value[0], F32(1)), f"{name} {x} on the page")
                check(bits(apply(name, x)) == bits(expected), f"{name} {float(x).hex()}")


def exactly(name, x):
    """From decimal arithmetic alone."""
    return functions.exactly(functions.EXACT[name], x)


def check_special_arguments(page):
    """The table "Where the real value is no number"."""
    table = section(page, "ELEMENTARY FUNCTIONS").split("found to fail:")[0]
    rows = re.findall(r"^\|\[? +([\w, ]+)\n:\[? +(.*)\n:\[? +(.*)$", table, re.M)
    rows = [row for row in rows if row[0] != "*Function*"]
    named = {name for names, _, _ in rows for name in names.split(", ")}
    check(named == set(functions.FUNCTIONS), f"special arguments of {named}")
    for names, arguments, values in rows:
        for argument, value in zip(arguments.split(", "), values.split(", "), strict=True):
            for sign in ("+", "-") if "±" in argument else ("",):
                x = -2.0 if argument == "below 0" else -1.5 if argument == "below -1" else float(argument.replace("±", sign))
                expected = F32(float(value.replace("±", sign)))
                for name in names.split(", "):
                    check(bits(apply(name, F32(x))) == bits(numbers.canonical(np.array([expected]))[0]), f"{name} of {argument}")


def check_functions():
    """Arguments of all sizes, and small ones, against decimal."""
    chance = np.random.default_rng(3)
    some = np.concatenate([chance.integers(0, 2**32, 1500, dtype=np.uint32).view(F32), (3 * chance.normal(size=500)).astype(F32)])
    limits = {"exp": 200, "expm1": 200, "tanh": 200, "erf": 9}
    with np.errstate(all="ignore"):
        for name, function in functions.FUNCTIONS.items():
            inside = np.isfinite(some) & (some != 0) & (np.abs(some) < limits.get(name, np.inf))
            x = some[inside & (some > {"log": 0, "log1p": -1}.get(name, -np.inf))]
            wrong = [float(a).hex() for a, b in zip(x, function(x)) if bits(exactly(name, a)) != bits(b)]
            check(not wrong, f"{name}: {wrong[:4]}")


def pattern(seed, count):
    """As in tests/vectors/kernels_ref.py: splitmix64 of seed + n, as floats of both signs with exponents -12 … 12."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    exponent = (np.uint64(115) + (z >> np.uint64(32)) % np.uint64(25)) << np.uint64(23)
    return (((z >> np.uint64(63)) << np.uint64(31)) | exponent | (z & np.uint64(0x7FFFFF))).astype(np.uint32).view(F32)[:, None]


def check_words(case):
    seed, element = int(case["seed"], 16), case["element"]
    words = inputs.philox([element & 0xFFFFFFFF, element >> 32, case["step"], case["stream"]], inputs.key_of(seed))
    check(["%08x" % int(word) for word in words] == case["words"], f"words {case}")
    if case["step"] == 0 and element < 2:
        kind, ordinal = case["stream"] >> 24, case["stream"] & 0xFFFFFF
        check(bits(inputs.normal(seed, kind, ordinal, 2)[element]) == case["normal"], f"normal {case}")


def check_schedule(case):
    task = {"steps": case["total"],
            "optimizer": {"lr": case["lr"], "beta1": case["beta1"], "beta2": case["beta2"], "weight_decay": case["wd"]},
            "schedule": {"kind": case["kind"], "warmup": case["warmup"], "every": case["every"], "gamma": case["gamma"], "min": case["minimum"]}}
    names = ["lr", "-lr", "lr/(1-b1^t)", "1/sqrt(1-b2^t)", "1-lr*wd"]
    check([bits(inputs.scalar(task, name, case["step"])) for name in names] == case["values"], f"schedule {case}")


def check_vectors():
    vectors = json.loads(text_of("tests/vectors/kernels_ref.json"))
    for case in vectors["dot"]:
        if n := case["n"]:
            check(bits(folds.dot(pattern(2 * n, n), pattern(2 * n + 1, n))[0]) == case["value"], f"dot {case}")
    for case in vectors["sum"]:
        if n := case["n"]:
            check(bits(folds.sum(pattern(n, n))[0]) == case["value"], f"sum {case}")
    for case in vectors["words"]:
        check_words(case)
    for case in vectors["order"]:
        check(inputs.batch_indices(int(case["seed"], 16), case["n"], case["batch"], case["step"]) == case["indices"], f"order {case}")
    for case in vectors["schedule"]:
        check_schedule(case)


def check_order(page):
    """Each epoch shows each sample once; the page's example."""
    for samples in (1, 2, 5, 64, 65):
        check(sorted(inputs.batch_indices(9, samples, samples, 3)) == list(range(samples)), f"an epoch of {samples}")
    example = re.search(r"order\(seed 0xdeadbeefcafe, n 100, m 7\)\n +step 0: ([\d ]+?) {2,}step 500: ([\d ]+)", section(page, "CHECKS"))
    for step, numbers_of_step in zip((0, 500), example.groups()):
        check(inputs.batch_indices(0xDEADBEEFCAFE, 100, 7, step) == [int(n) for n in numbers_of_step.split()], f"order on the page, step {step}")


def main():
    page = text_of("man/dgx-numerics.7.scd")
    check_rows(page)
    check_special_arguments(page)
    check_hard_arguments(page)
    check_functions()
    check_vectors()
    check_order(page)
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(1 if failures else 0)


main()
