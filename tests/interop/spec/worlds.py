"""Small tasks to dispute about. `small` has every kind of line, folds of one block and of several; `long` has a segment of many steps; `wide` has
trees of more than 256 leaves: of values, of a value's numbers, of a state's entries; `folds` has large folds alone; `exploding` diverges;
`masked` reads fields besides x, and its dataset has no y."""

import numpy as np

from . import inputs as derived
from .games import World

OPTIMIZER = {"kind": "sgd", "lr": "0x1p-7", "momentum": "0x0p0", "nesterov": False, "weight_decay": "0x0p0"}
TYPES = {"f32": "<f4", "i64": "<i8", "u8": "|u1"}
EVALUATION = [{"k": "input", "s": [3, 5], "src": "batch x", "t": "f32", "v": 0},
              {"f": [5], "k": "sum", "s": [3], "t": "f32", "v": 1, "x": ["0[i0,k0]"]}]


def options(batch, steps, every):
    return {"batch": batch, "steps": steps, "checkpoint_every": every, "seed": "12345678901234567890", "optimizer": OPTIMIZER, "loss": "mse",
            "schedule": {"kind": "constant", "warmup": 3}}


class Lines:
    def __init__(self):
        self.lines = []

    def add(self, kind, element, shape, **fields):
        self.lines.append({"k": kind, "s": shape, "t": element, "v": len(self.lines), **fields})
        return len(self.lines) - 1

    def source(self, element, shape, src, **fields):
        return self.add("input", element, shape, src=src, **fields)


def data():
    numbers = np.random.default_rng(5)
    return {"x": numbers.normal(size=(64, 5)).astype("<f4"), "y": numbers.integers(0, 4, 64).astype("<i8")}


def inputs(made):
    made.source("f32", [], "state loss", next=31)
    made.source("f32", [5, 4], "state model/a", next=29)
    made.source("f32", [4], "state model/b", next=30)
    made.source("i64", [], "state step", next=32)
    made.source("f32", [3, 5], "batch x")
    made.source("i64", [3], "batch y")
    made.source("f32", [2], "schedule", of=["lr", "-lr"])
    made.source("f32", [3], "constant", of=["0x1p-1", "0x1.8p0", "-0x1p-2"])
    made.source("u8", [4], "constant", of=["1", "2", "250", "7"])
    made.source("f32", [3, 4], "uniform 0")


def small_folds(made):
    made.add("dot", "f32", [3, 4], f=[5], x=["4[i0,k0]", "1[k0,i1]"])
    made.add("map", "f32", [3, 4], x=["9[i0,i1]", "10[i0,i1]", "2[i1]", "7[2]"],
             do=["lt x0 0x1p-1", "add x1 x2", "mul t1 x3", "select t0 t1 t2"])
    made.add("max", "f32", [3], f=[4], x=["11[i0,k0]"])
    made.add("map", "f32", [3, 4], x=["11[i0,i1]", "12[i0]"], do=["sub x0 x1", "exp t0"])
    made.add("sum", "f32", [3], f=[4], x=["13[i0,k0]"])
    made.add("argmax", "i64", [3], f=[4], x=["11[i0,k0]"])
    made.add("map", "f32", [3], x=["11[i0,$1]?0x0p0", "5[i0]", "14[i0]"], do=["sub x0 x2", "neg t0"])
    made.add("chain", "f32", [4], f=[3], init="0x0p0", x=["5[k0]", "11[k0,i0]", "7[1]"], when=["ge x0 1"], do=["fma x1 x2 acc"])


def large_folds(made):
    made.add("sum", "f32", [2], f=[4120], x=["16[i0]"], do=["f32 k0", "fma t0 0x1.8p-9 x0", "sin t1"])
    made.add("dot", "f32", [2], f=[4600], x=["9[i0,k0//1150]", "4[i0,k0//920]"])
    made.add("max", "f32", [], f=[2060], x=["7[1]"], do=["f32 k0", "mul t0 x0", "sin t1"])
    made.add("argmax", "i64", [], f=[1030], x=[], do=["mul k0 7919", "imod t0 2503"])
    made.add("chain", "f32", [], f=[2100], init="x0", x=["7[0]", "7[2]"], do=["fma acc x1 0x1p-3"])
    made.add("sum", "i64", [], f=[70], x=["5[0]"], do=["mul k0 k0", "add t0 x0"])
    made.add("map", "u8", [4], x=["8[i0]", "21[]"], do=["imod x1 200", "add x0 t0"])
    made.add("max", "u8", [], f=[4], x=["8[k0]"])
    made.add("chain", "i64", [], f=[4], init="3", x=["24[k0]"], do=["mul acc x0", "imod t0 1009"])
    made.add("map", "f32", [3, 4], x=["4[i0,2*i1-1]?-0x0p0", "11[i0,(i1-1)/2]?0x1p0"], do=["fma x0 x1 0x1p-3"])


def keep(made, values, prefix="kept"):
    """Entries that these values become, so that whatever is wrong in a step is in the state after it; of the state that begins the run."""
    state = {}
    for value in values:
        line = made.lines[value]
        made.source(line["t"], line["s"], f"state {prefix}/{value:02}", next=value)
        state[f"{prefix}/{value:02}"] = np.zeros(line["s"], TYPES[line["t"]])
    return state


def small(poisoned=None, kept=(*range(4, 29), *range(33, 37))):
    """At step `poisoned` a sample is drawn whose numbers are too large for it."""
    made = Lines()
    inputs(made)
    small_folds(made)
    large_folds(made)
    made.add("sum", "f32", [4], f=[3], x=["27[k0,i0]"], do=["mul x0 0x1p-1"])
    made.add("map", "f32", [5, 4], x=["6[1]", "28[i1]", "1[i0,i1]"], do=["fma x0 x1 x2"])
    made.add("map", "f32", [4], x=["6[1]", "17[i0]", "2[i0]"], do=["fma x0 x1 x2"])
    made.add("map", "f32", [], x=["18[1]", "19[1]", "20[]", "22[]"], do=["add x0 x1", "add x2 x3", "mul t0 t1"])
    made.add("map", "i64", [], x=["3[]"], do=["add x0 1"])
    made.add("map", "f32", [700], x=["7[1]"], do=["f32 i0", "mul t0 x0"])
    made.add("map", "f32", [4], x=["2[i0]"])
    made.add("sum", "f32", [2], f=[2049], x=["33[k0//3]", "16[i0]"], do=["mul x0 x1"])
    made.add("max", "f32", [2], f=[300], x=["33[i0+2*k0]"])
    numbers = np.random.default_rng(6)
    state = {"loss": np.zeros([], "<f4"), "model/a": numbers.normal(size=(5, 4)).astype("<f4"), "model/b": numbers.normal(size=4).astype("<f4"),
             "step": np.zeros([], "<i8")}
    state.update(keep(made, kept))
    task, samples = options(3, 7, 3), data()
    if poisoned is not None:
        samples["x"][derived.batch_indices(int(task["seed"]), 64, 3, poisoned)[1]] = 3e38
    return World(made.lines, EVALUATION, samples, state, task)


def folds(**more):
    """Large folds alone, as those of `small`, so that what is shown of a step is short; `more` are other fields of the task."""
    made = Lines()
    made.source("f32", [], "state loss", next=13)
    made.source("i64", [], "state step", next=14)
    made.source("f32", [3, 5], "batch x")
    made.source("i64", [3], "batch y")
    made.source("u8", [4], "constant", of=["1", "2", "250", "7"])
    made.add("dot", "f32", [2], f=[4600], x=["2[i0,k0//920]", "2[2,k0//920]"])
    made.add("sum", "f32", [2], f=[4120], x=["2[i0,0]"], do=["f32 k0", "fma t0 0x1.8p-9 x0", "sin t1"])
    made.add("max", "f32", [], f=[2060], x=["2[1,0]"], do=["f32 k0", "mul t0 x0", "sin t1"])
    made.add("argmax", "i64", [], f=[1030], x=[], do=["mul k0 7919", "imod t0 2503"])
    made.add("chain", "f32", [], f=[2100], init="x0", x=["2[0,0]", "2[0,2]"], do=["fma acc -0x1p-2 x1"])
    made.add("sum", "i64", [], f=[70], x=["3[0]"], do=["mul k0 k0", "add t0 x0"])
    made.add("max", "u8", [], f=[4], x=["4[k0]"])
    made.add("chain", "i64", [], f=[4], init="3", x=["4[k0]"], do=["mul acc x0", "imod t0 1009"])
    made.add("map", "f32", [], x=["7[]"])
    made.add("map", "i64", [], x=["1[]"], do=["add x0 1"])
    state = {"loss": np.zeros([], "<f4"), "step": np.zeros([], "<i8"), **keep(made, range(5, 13))}
    return World(made.lines, EVALUATION, data(), state, options(3, 7, 3) | more)


def long():
    """One segment of 600 steps, in which b goes beyond all floats."""
    made = Lines()
    made.source("f32", [], "state loss", next=4)
    made.source("f32", [2], "state model/b", next=5)
    made.source("i64", [], "state step", next=6)
    made.source("f32", [3, 5], "batch x")
    made.add("map", "f32", [], x=["3[2,4]"])
    made.add("map", "f32", [2], x=["1[i0]", "3[1,i0]"], do=["fma x0 0x1.4p0 x1"])
    made.add("map", "i64", [], x=["2[]"], do=["add x0 1"])
    state = {"loss": np.zeros([], "<f4"), "model/b": np.ones(2, "<f4"), "step": np.zeros([], "<i8")}
    return World(made.lines, EVALUATION, data(), state, options(3, 600, 600))


def exploding():
    """Step 4 of 7 gives a state that is not finite: b is 2^30 times what it was, and a little. The states committed before are at steps 0, 3 and 4."""
    made = Lines()
    made.source("f32", [], "state loss", next=4)
    made.source("f32", [2], "state model/b", next=5)
    made.source("i64", [], "state step", next=6)
    made.source("f32", [3, 5], "batch x")
    made.add("map", "f32", [], x=["3[2,4]"])
    made.add("map", "f32", [2], x=["1[i0]", "3[1,i0]"], do=["fma x0 0x1p30 x1"])
    made.add("map", "i64", [], x=["2[]"], do=["add x0 1"])
    state = {"loss": np.zeros([], "<f4"), "model/b": np.ones(2, "<f4"), "step": np.zeros([], "<i8")}
    return World(made.lines, EVALUATION, data(), state, options(3, 7, 3))


def masked():
    """Sums of x times mask, times a weight; lines 3 to 5 are the batch. A sample of mask has more than a leaf of numbers, one of weight a few."""
    made = Lines()
    made.source("f32", [], "state loss", next=7)
    made.source("f32", [3], "state model/b", next=8)
    made.source("i64", [], "state step", next=9)
    made.source("u8", [3, 1100], "batch mask")
    made.source("f32", [3], "batch weight")
    made.source("f32", [3, 5], "batch x")
    made.add("sum", "f32", [3], f=[1100], x=["3[i0,k0]", "5[i0,k0//220]"], do=["f32 x0", "mul t0 x1"])
    made.add("sum", "f32", [], f=[3], x=["6[k0]"])
    made.add("map", "f32", [3], x=["6[i0]", "4[i0]", "1[i0]"], do=["fma x0 x1 x2"])
    made.add("map", "i64", [], x=["2[]"], do=["add x0 1"])
    numbers = np.random.default_rng(7)
    samples = {"mask": numbers.integers(0, 3, (64, 1100)).astype("|u1"), "weight": numbers.normal(size=64).astype("<f4"), "x": data()["x"]}
    state = {"loss": np.zeros([], "<f4"), "model/b": np.ones(3, "<f4"), "step": np.zeros([], "<i8")}
    return World(made.lines, EVALUATION, samples, state, options(3, 7, 3))


def wide():
    """513 lines, 257 entries, one value of 257 leaves: in each tree one leaf stands beside full lists."""
    made = Lines()
    made.source("f32", [], "state loss", next=0)
    for n in range(254):
        made.source("f32", [2], f"state model/{n:03}", next=1 + n if n % 2 else 258 + n // 2)
    made.source("f32", [65540], "state model/254", next=512)
    made.source("i64", [], "state step", next=511)
    made.source("f32", [2], "schedule", of=["lr", "-lr"])
    for n in range(253):
        made.add("map", "f32", [2], x=[f"{1 + n}[i0]", "257[1]"], do=["add x0 x1"])
    made.add("map", "i64", [], x=["256[]"], do=["add x0 1"])
    made.add("map", "f32", [65540], x=["257[0]", "511[]"], do=["f32 i0", "f32 x1", "fma t0 x0 t1"])
    assert len(made.lines) == 513
    state = {"loss": np.zeros([], "<f4"), "step": np.zeros([], "<i8"), "model/254": np.zeros(65540, "<f4"),
             **{f"model/{n:03}": np.array([n, -n], "<f4") for n in range(254)}}
    return World(made.lines, EVALUATION, data(), state, options(3, 4, 2))
