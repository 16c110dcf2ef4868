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

from spec import digests, folds, functions, inputs, numbers

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


def check_group(case):
    task = {"steps": case["total"], "groups": [{"lr": "0x1p0"}, {"lr": case["factor"], "weight_decay": case["wd"]}],
            "optimizer": {"lr": case["lr"], "beta1": case["beta1"], "beta2": case["beta2"], "weight_decay": "0x1p3"},
            "schedule": {"kind": case["kind"], "warmup": case["warmup"], "every": case["every"], "gamma": case["gamma"], "min": case["minimum"]}}
    names = ["lr:2", "-lr:2", "lr/(1-b1^t):2", "1-lr*wd:2"]
    check([bits(inputs.scalar(task, name, case["step"])) for name in names] == case["values"], f"schedule of a group {case}")


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
    for case in vectors["rates"]:
        task = {"steps": case["total"], "optimizer": {"lr": case["lr"], "lr_decay": case["lr_decay"]}, "schedule": case["schedule"]}
        for name, wanted in (("lr", case["rates"]), ("-lr/(1+s*ld)", case["decayed"])):
            check([bits(inputs.scalar(task, name, step)) for step in case["steps"]] == wanted, f"{name} of {case}")
    for case in vectors["schedule_group"]:
        check_group(case)


def check_order():
    """Each epoch shows each sample once."""
    for samples in (1, 2, 5, 64, 65):
        check(sorted(inputs.batch_indices(9, samples, samples, 3)) == list(range(samples)), f"an epoch of {samples}")


def check_examples(page):
    """The numbers that the page prints under CHECKS, in its order."""
    text = section(page, "CHECKS")
    words = re.findall(r"^words\(seed (\d+), stream (\w+), step 0, element ([\d *^]+)\)\n +([0-9a-f ]+); their uniform 0x(\w+), normal 0x(\w+)$", text, re.M)
    check(len(words) == 2, f"{len(words)} examples of random words on the page")
    for seed, stream, element, shown, uniform, normal in words:
        factors = [power.partition("^") for power in element.split(" * ")]
        number = math.prod(int(base) ** int(exponent or 1) for base, _, exponent in factors)
        check_word(int(seed), int(stream, 16), number, shown.split(), uniform, normal)
    check_folds(text)
    example = re.search(r"order\(seed 0xdeadbeefcafe, n 100, m 7\)\n +step 0: ([\d ]+?) {2,}step 500: ([\d ]+)", text)
    for step, numbers_of_step in zip((0, 500), example.groups()):
        check(inputs.batch_indices(0xDEADBEEFCAFE, 100, 7, step) == [int(n) for n in numbers_of_step.split()], f"order on the page, step {step}")
    check_rates(text)


def check_word(seed, stream, element, shown, uniform, normal):
    words = inputs.philox([np.array([word], np.uint64) for word in (element & 0xFFFFFFFF, element >> 32, 0, stream)], inputs.key_of(seed))
    check(["%08x" % int(word[0]) for word in words] == shown, f"words of element {element} on the page")
    check(bits(inputs.uniform_of(words)[0]) == uniform, f"uniform of element {element} on the page")
    check(bits(inputs.normal_of(words)[0]) == normal, f"normal of element {element} on the page")


def check_folds(text):
    shown = re.search(r"^sum of 1/\(p\+1\), p = 0 \.\.\. 4999\n +0x(\w+)\ndot of 1/\(p\+1\) and 1/\(p\+2\), p = 0 \.\.\. 4999\n +0x(\w+)$", text, re.M)
    p = np.arange(5000, dtype=F32)[:, None]
    a, b = F32(1) / (p + F32(1)), F32(1) / (p + F32(2))
    check((bits(folds.sum(a)[0]), bits(folds.dot(a, b)[0])) == shown.groups(), f"folds on the page, {bits(folds.sum(a)[0])} {bits(folds.dot(a, b)[0])}")


def check_rates(text):
    task = {"steps": 1000, "optimizer": {"lr": 0.003.hex(), "beta1": 0.9.hex(), "beta2": 0.999.hex(), "weight_decay": 0.1.hex()},
            "schedule": {"kind": "cosine", "warmup": 100, "min": 1e-5.hex()}}
    check("schedule cosine, lr 0.003, min 1e-5, w 100, T 1000, b1 0.9, b2 0.999, wd 0.1:" in text, "the schedule of the page")
    names = re.search(r"wd 0\.1: (.*)$", text, re.M)[1].split(", ")
    for step in (0, 500):
        shown = re.search(rf"^ +step {step}: +(0x.*)$", text, re.M)[1].split()
        check(["0x" + bits(inputs.scalar(task, name, step)) for name in names] == shown, f"schedule on the page, step {step}")
    steps = [int(step) for step in re.search(r"the rate at steps ([\d, ]+)$", text, re.M)[1].split(", ")]
    lines = re.findall(r"^ {4}([a-z-]+):(\S+) {2,}(0x[0-9a-fx ]+)$", text, re.M)
    check(len(lines) == 5, f"{len(lines)} schedules on the page")
    for kind, fields, shown in lines:
        schedule = {"kind": kind, "warmup": 0}
        for key, _, value in (field.partition("=") for field in fields.split(",")):
            schedule[key] = int(value) if key in ("warmup", "decay", "cycles") else float(value).hex()
        task["schedule"] = schedule
        check(["0x" + bits(inputs.scalar(task, "lr", step)) for step in steps] == shown.split(), f"{kind} on the page")


def entries_of_page():
    """Of the four models under CHECKS, as their lines say: the shapes of all entries but loss and step."""
    layers = {"model/0.bias": [3], "model/0.weight": [3, 4], "model/2.bias": [2], "model/2.weight": [2, 3]}
    yield "mlp:4-3-2", {**layers, **{name.replace("model/", "optimizer/momentum/"): shape for name, shape in layers.items()}}
    decoder = {"wte.weight": [5, 4], "wpe.weight": [3, 4], "lm_head.weight": [5, 4]}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        decoder.update({f"{name}.weight": [4], f"{name}.bias": [4]})
    for name, shape in (("attn.c_attn", [12, 4]), ("attn.c_proj", [4, 4]), ("mlp.c_fc", [16, 4]), ("mlp.c_proj", [4, 16])):
        decoder.update({f"h.0.{name}.weight": shape, f"h.0.{name}.bias": shape[:1]})
    yield "gpt:layers=1,width=4,heads=2,context=3,vocab=5", {f"model/{name}": shape for name, shape in decoder.items()}
    dense = {f"h.0.mlp.{name}.{last}" for name in ("c_fc", "c_proj") for last in ("weight", "bias")}
    mixture = {**{name: shape for name, shape in decoder.items() if name not in dense}, "h.0.mlp.router.weight": [2, 4],
               **{name.replace(".mlp.", f".mlp.experts.{expert}."): decoder[name] for name in sorted(dense) for expert in (0, 1)}}
    yield "switch:layers=1,width=4,heads=2,context=3,vocab=5,experts=2,every=1", {f"model/{name}": shape for name, shape in mixture.items()}
    convolutions = [("", 1, 16, 1)] + [(f"layer{layer}.{block}.", n, 8 << layer, 8 << (layer - (layer > 1 and block == 0 and n == 1)))
                                       for layer in (1, 2, 3) for block in (0, 1, 2) for n in (1, 2)]
    network = {"fc.weight": [10, 64], "fc.bias": [10]}
    for prefix, n, channels, before in convolutions:
        network[f"{prefix}conv{n}.weight"] = [channels, before, 3, 3]
        network.update({f"{prefix}bn{n}.{last}": [channels] for last in ("weight", "bias", "running_mean", "running_var")})
    yield "resnet20:classes=10", {f"model/{name}": shape for name, shape in network.items()}


def check_initial_states(page):
    """Their digests, which tests/unit/program/initial_test.cc has from the programs' own rules."""
    text, compared = section(page, "CHECKS"), text_of("tests/unit/program/initial_test.cc")
    seed = int(re.search(r"seed (\d+)\. All entries", text)[1])
    for model, shapes in entries_of_page():
        shown = re.search(rf"^{re.escape(model)}, .*\n(?: +.*\n)*? +([0-9a-f]{{64}})$", text, re.M)
        lines = [{"src": f"state {name}", "s": shape, "t": "i64" if name == "step" else "f32"} for name, shape in {**shapes, "loss": [], "step": []}.items()]
        digest = digests.state(inputs.initial_state(lines, seed, model))
        check(shown and shown[1] == digest, f"initial state of {model}: {digest}")
        check(digest in compared, f"initial state of {model}: is not compared with the programs'")


def main():
    page = text_of("man/dgx-numerics.7.scd")
    check_rows(page)
    check_special_arguments(page)
    check_hard_arguments(page)
    check_functions()
    check_vectors()
    check_order()
    check_examples(page)
    check_initial_states(page)
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(1 if failures else 0)


main()
