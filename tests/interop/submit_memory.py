"""What dgx-submit takes for a model file, and the numbers that it has although it does not compute what only has a form:
submit_memory.py --bin FOLDER --plugins FOLDER --models FOLDER

A decoder of 23 MB of weights, whose pass on the batch would take many times that, is submitted with at most four times its weights more than a tiny
one. Then a model that has a large tensor of each kind whose numbers reach the initial state or the program: they are those of the file, or what
NumPy makes of them. And models whose numbers decide whether a call fails. Exits 77 without NumPy.
"""

import json
import os
import pathlib
import re
import sys

import support

support.needs.modules("numpy")
import numpy  # noqa: E402
from decoder import decoder, weight_bytes  # noqa: E402
from exported import Export, uniform  # noqa: E402
from measured import measured  # noqa: E402

CONTEXT, BATCH = 128, 8
MOST = 4


def submission(bench, model, data, *more):
    return [os.path.join(bench.bin, "dgx-submit"), "--data", f"{data}.h5", "--model", f"{model}.pt2", "--loss", "cross-entropy", "--optimizer", "adamw:lr=1e-3",
            "--batch", BATCH, "--steps", 6, "--checkpoint-every", 3, "--key", "alice.pem", "-o", f"{model}.json", "-q", "--force", *more]


def memory(bench):
    random, taken, weights = numpy.random.default_rng(1), {}, {}
    tokens = random.integers(0, 64, (16, CONTEXT + 1))
    numpy.save(bench.path("x.npy"), tokens[:, :-1])
    numpy.save(bench.path("y.npy"), tokens[:, 1:])
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "tokens.h5")
    for name, sizes in (("tiny", (1, 16, 2, CONTEXT, 64)), ("large", (2, 256, 4, CONTEXT, 16384))):
        for ending, training in (("", True), ("_eval", False)):
            net, y = decoder(*sizes, training=training)
            net.save(bench.path(f"{name}{ending}.pt2"), y)
        weights[name] = weight_bytes(net)
        taken[name] = measured(submission(bench, name, "tokens", "--eval-model", f"{name}_eval.pt2"), cwd=bench.folder)
    more = taken["large"]["bytes"] - taken["tiny"]["bytes"]
    print(f"{weights['large'] / 1e6:.1f} MB of weights: {taken['large']['seconds']:.1f} s, {taken['large']['bytes'] / 1e6:.0f} MB at the peak, "
          f"{more / weights['large']:.2f} times the weights more than a tiny model")
    bench.check(more <= MOST * weights["large"], f"memory: {more} bytes more for {weights['large']} bytes of weights")


def odd_model(numbers):
    """A net with large tensors of all kinds; an output of ten classes."""
    net = Export()
    x = net.input("x", ["s0", 1, 28, 28])
    # Transposed in the file, behind three numbers that nobody uses.
    stored = numpy.concatenate([numpy.zeros(3, "f4"), numbers["w"].T.ravel()])
    w = net.parameter("w", stored, sizes=[1000, 784], strides=[1, 1000], offset=3)
    head, rows = net.parameter("head", numbers["head"]), net.parameter("rows", numbers["rows"])
    ids, mask, bent = (net.buffer(name, numbers[name]) for name in ("ids", "mask", "bent"))
    c = net.constant("c", numbers["c"])
    h = net.call("relu", self=net.call("linear", input=net.call("flatten.using_ints", self=x, start_dim=1), weight=w))
    y = net.call("linear", input=h, weight=head)

    def ten(tensor):
        return net.call("slice.Tensor", self=tensor, dim=0, start=0, end=10)

    # The same in every step: a literal of one number, and one whose shape only its numbers tell.
    y = net.call("add.Tensor", self=y, other=net.call("sum", self=c))
    picked = net.call("index.Tensor", self=c, indices=[net.call("gt.Scalar", self=c, other=3)])
    y = net.call("add.Tensor", self=y, other=ten(picked))
    # Integers by which others are looked up, a mask of booleans, and one with infinities.
    y = net.call("add.Tensor", self=y, other=net.call("sum.dim_IntList", self=net.call("embedding", weight=rows, indices=ten(ids)), dim=[0]))
    y = net.call("where.self", condition=ten(mask), self=y, other=net.call("neg", self=y))
    return net, net.call("add.Tensor", self=y, other=net.call("clamp", self=ten(net.call("flatten.using_ints", self=bent)), min=-1.0))


def check_numbers(bench):
    random = numpy.random.default_rng(2)
    numbers = {"w": uniform((1000, 784), 1), "head": uniform((10, 1000), 2), "rows": uniform((64, 10), 3), "ids": random.integers(0, 64, 40000),
               "mask": random.integers(0, 2, 300000).astype(bool), "bent": uniform((300, 300), 4), "c": random.integers(0, 8, (400, 400)).astype("f4")}
    numbers["bent"][::7, ::5] = -numpy.inf
    assert min(numbers[name].nbytes for name in ("w", "ids", "mask", "bent", "c")) > 256 << 10, "not all are large"
    net, y = odd_model(numbers)
    net.save(bench.path("odd.pt2"), y)
    numpy.save(bench.path("x.npy"), random.integers(0, 256, (24, 1, 28, 28)).astype("u1"))
    numpy.save(bench.path("y.npy"), random.integers(0, 10, 24).astype("u1"))
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "images.h5")
    bench.run(*map(str, submission(bench, "odd", "images")))
    bench.run("dgx-inspect", "export", "odd.init.h5", "-o", "odd.npz")
    initial = numpy.load(bench.path("odd.npz"))
    expected = {name: numbers[name] for name in ("w", "head", "rows", "ids", "mask")}
    expected["constant.1"] = numbers["c"][numbers["c"] > 3]  # constant.0 is the sum
    stand_in = numpy.float32(numpy.finfo("f4").max)
    expected["bent"] = numpy.where(numpy.isinf(numbers["bent"]), -stand_in, numbers["bent"])
    found = {name: initial[name] for name in initial.files}
    bench.check(found.keys() == expected.keys(), f"entries {sorted(found)}, expected {sorted(expected)}")
    for name, array in expected.items():
        same = name in found and found[name].shape == array.shape and (found[name] == array).all()
        bench.check(same, f"{name}: the numbers of the initial state are not the file's")
    lines = {kind: pathlib.Path(bench.path(f"odd.{kind}.jsonl")).read_text(encoding="utf-8") for kind in ("program", "eval")}
    total = re.sub(r"0*p\+", "p", float(numbers["c"].sum(dtype="f8")).hex())
    for kind, text in lines.items():
        bench.check(f" {total}\"" in text, f"{kind}: the sum of c is not {total}")
        bench.check("inf" in text, f"{kind}: the infinities of bent are not put back")
    bench.run("dgx-train", "odd.json", "--data", "images.h5", "-o", "odd.run")


def lookup(rows, ids):
    """A net that adds rows of a table, which a buffer names, to its output."""
    net = Export()
    x = net.input("x", ["s0", 1, 28, 28])
    y = net.call("linear", input=net.call("flatten.using_ints", self=x, start_dim=1), weight=net.parameter("w", uniform((10, 784), 5)))
    first = net.call("slice.Tensor", self=net.buffer("ids", ids), dim=0, start=0, end=10)
    found = net.call("embedding", weight=net.parameter("rows", uniform((rows, 10), 6)), indices=first)
    return net, net.call("add.Tensor", self=y, other=net.call("sum.dim_IntList", self=found, dim=[0]))


def check_doubts(bench):
    """Where numbers decide that are not there, the pass is made again with them: what does not fit is refused, what fits is taken."""
    large, small, missed = numpy.full(40000, 5), numpy.zeros(10, "i8"), numpy.full(40000, 5)
    missed[3] = 77
    for name, rows, ids, fits in (("fits", 8, large, True), ("missed", 8, missed, False), ("first", 100000, small, True), ("negative", 100000, small - 1, False)):
        net, y = lookup(rows, ids)
        net.save(bench.path(name + ".pt2"), y)
        bench.run(*map(str, submission(bench, name, "images")), codes=(0 if fits else 65,))


def main():
    options = support.arguments()
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "alice")
        memory(bench)
        check_numbers(bench)
        check_doubts(bench)


if __name__ == "__main__":
    sys.exit(main())
