"""What groups, frozen parameters and workers that compress do to a step, by formulas that were written from the pages: updates.py --bin FOLDER --plugins FOLDER

Each task has a plain twin: the same model, data, seed and workers without those options, optimised by SGD without momentum. The twin's program, run by spec/ on
the task's weights, gives the gradients; the formulas of dgx-lowerings(7), "Optimisers", give the step. No line that groups or freezing made is run, and
the states must be those of dgx-train, bit for bit. Exits 77 without NumPy, h5py and cryptography.
"""

import fnmatch
import sys

try:
    import cryptography  # noqa: F401
    import h5py  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import compressed
import support
import tasks
from spec import digests, inputs, numbers, program

F32 = np.float32
STEPS = 7
# By name: the optimiser, and options.
CASES = {
    "decay": ("adamw:lr=1e-2", ["--group", "rank<2:weight-decay=0", "--group", "2.*:lr=0.3x", "--schedule", "cosine:warmup=2,min=1e-4"]),
    "coupled": ("adam:lr=1e-2,weight-decay=0.1", ["--group", "*.weight:lr=3x,weight-decay=0.01"]),
    "first": ("sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=1e-2", ["--group", "0.*:lr=0.1x", "--group", "*:weight-decay=0.5"]),
    "frozen": ("sgd:lr=0.1", ["--freeze", "0.*", "--group", "2.bias:lr=10x"]),
    "compressed": ("dgc:lr=0.1,density=0.05,warmup=4,weight-decay=0.1", ["--workers", "2", "--group", "rank<2:weight-decay=0"]),
    "rounded": ("dgc:lr=0.1,density=0.2,bits=8,clip=0.1,warmup=3", ["--workers", "4", "--freeze", "0.bias"]),
}


def fma(a, b, c):
    return numbers.apply("fma", np.broadcast_arrays(F32(a), F32(b), F32(c)))


def means(pattern, name, shape):
    if pattern.startswith("rank<"):
        return len(shape) < int(pattern[5:])
    return fnmatch.fnmatchcase(name, pattern)


def gradients(lines, table, workers):
    """By parameter: what the plain twin's update, fma(-lr, gradient, parameter), reads; with workers, a row of each, which that adds up."""
    found = {}
    for line in lines:
        name = line["src"].removeprefix("state model/") if line["k"] == "input" and line["src"].startswith("state model/") else None
        if name is None or line["next"] == line["v"]:
            continue
        update = lines[line["next"]]
        assert update["do"] == ["fma x0 x1 x2"], update
        value, _, rest = update["x"][1].partition("[")
        assert "@" not in value and rest, update
        if workers > 1:
            total = lines[int(value)]
            assert total["k"] == "dot" and total["f"] == [workers], total
            value = total["x"][1].partition("[")[0]
        found[name] = table[int(value)]
    return found


class Twin:
    def __init__(self, task):
        self.task, self.optimizer = task, task["optimizer"]

    def group(self, name, shape):
        groups = enumerate(self.task.get("groups", []), 1)
        return next((n for n, group in groups if means(group["match"], name, shape)), 0)

    def number(self, field):
        return float.fromhex(self.optimizer[field])

    def update(self, state, name, g, step):
        """The entries that a parameter's update replaces."""
        p = state[f"model/{name}"]
        group = self.group(name, p.shape)
        decay = float.fromhex((self.task["groups"][group - 1] if group else {}).get("weight_decay", self.optimizer["weight_decay"]))

        def scheduled(base):
            return inputs.scalar(self.task, f"{base}:{group}" if group else base, step)

        kind = self.optimizer["kind"]
        if kind == "dgc":
            entries, _, total = compressed.update(self.optimizer, state, name, g, step)
            return entries | {f"model/{name}": fma(scheduled("-lr"), total, p * scheduled("1-lr*wd") if decay else p)}
        d = fma(decay, p, g) if decay and kind != "adamw" else g
        if kind == "sgd":
            momentum = self.number("momentum")
            if not momentum:
                return {f"model/{name}": fma(scheduled("-lr"), d, p)}
            b = fma(momentum, state[f"optimizer/momentum/{name}"], d)
            u = fma(momentum, b, d) if self.optimizer["nesterov"] else b
            return {f"model/{name}": fma(scheduled("-lr"), u, p), f"optimizer/momentum/{name}": b}
        b1, b2 = self.number("beta1"), self.number("beta2")
        m, v = state[f"optimizer/exp_avg/{name}"], state[f"optimizer/exp_avg_sq/{name}"]
        m = fma(1 - b1, d - m, m)
        v = fma(d * d, 1 - b2, v * F32(b2))
        q = m / fma(np.sqrt(v), inputs.scalar(self.task, "1/sqrt(1-b2^t)", step), self.number("eps"))
        if kind == "adamw" and decay:
            p = p * scheduled("1-lr*wd")
        return {f"model/{name}": fma(-scheduled("lr/(1-b1^t)"), q, p), f"optimizer/exp_avg/{name}": m, f"optimizer/exp_avg_sq/{name}": v}

    def step(self, state, plain, data, step):
        weights = {entry: value for entry, value in state.items() if not entry.startswith("optimizer/")}
        table, after = program.run_step(plain, self.task, weights, data, step)
        out = dict(state, step=after["step"], loss=after["loss"])
        workers = self.task.get("workers", 1)
        for name, g in gradients(plain, table, workers).items():
            shape = state[f"model/{name}"].shape
            if not any(means(pattern, name, shape) for pattern in self.task.get("freeze", [])):
                out.update(self.update(state, name, g.reshape((workers,) * (workers > 1) + shape), step))
        return out


def check(bench, name, data):
    optimizer, more = CASES[name]
    workers = more[:2] if "--workers" in more else []
    tasks.submit(bench, name, "small.h5", tasks.Case("mlp:16-12-5", "cross-entropy", optimizer, more, steps=STEPS))
    tasks.submit(bench, f"{name}-plain", "small.h5", tasks.Case("mlp:16-12-5", "cross-entropy", "sgd:lr=1", workers, steps=STEPS))
    texts = {}
    for each in (name, f"{name}-plain"):
        with open(bench.path(f"{each}.program.jsonl")) as file:
            texts[each] = program.parse(file.read())
    twin = Twin(tasks.statements.read(bench.path(f"{name}.json")).predicate)
    state = inputs.initial_state(texts[name], int(twin.task["seed"]), twin.task["model"])
    for step in range(STEPS):
        state = twin.step(state, texts[f"{name}-plain"], data, step)
    done = bench.run("dgx-train", f"{name}.json", "--data", "small.h5", "-o", f"{name}.run", "--threads", "1")
    bench.check(done["state"] == digests.state(state), f"{name}: the state after {STEPS} steps")


def main():
    options = support.parsed(support.parser())
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "submitter")
        chance = np.random.default_rng(7)
        data = {"x": chance.normal(size=(50, 16)).astype(F32), "y": chance.integers(0, 5, 50).astype(np.uint8)}
        for field, array in data.items():
            np.save(bench.path(f"{field}.npy"), array)
        bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "small.h5")
        for name in CASES:
            check(bench, name, data)
            print(f"{name}: {STEPS} steps")


if __name__ == "__main__":
    main()
