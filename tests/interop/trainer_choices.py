"""Losses, optimisers and schedules by the pages alone: trainer_choices.py --bin FOLDER --plugins FOLDER

Every loss, optimiser and schedule of dgx-submit(1), "SPEC", groups and frozen parameters, gradients accumulated over steps, added up over workers or compressed by them, and
averages of weights, on a linear model, 60 steps each: the updates are written here from the formulas of dgx-lowerings(7), "Losses" and "Optimisers", not run from the task's program,
and the final state must be that of dgx-train, bit for bit. Small batches whose gradients are accumulated must give nearly the weights of large ones.
Exits 77 without NumPy, h5py and cryptography.
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
from exported import Export, uniform  # of tests/support
from spec import folds, inputs, numbers, statements
from tasks import read_dataset, read_state

F32 = np.float32
STEPS, BATCH, SAMPLES, WIDTH, OUTPUTS = 60, 4, 30, 5, 3
WIDE = 363  # its square is odd, and more than 131,072
LOSSES = ("bce", "bce:pos-weights=0.5/2/3.3", "bce:pos-weights=1.7", "huber", "huber:delta=0.3", "l1", "mse")
OPTIMIZERS = ("lion:lr=1e-2", "lion:lr=1e-2,betas=0.8/0.95,weight-decay=0.1", "rmsprop", "rmsprop:centered,weight-decay=0.01",
              "rmsprop:lr=3e-3,alpha=0.9,eps=1e-6,momentum=0.9,centered", "adagrad", "adagrad:lr=0.1,lr-decay=0.05,weight-decay=0.01,initial=0.1",
              "adam:lr=1e-2,weight-decay=0.1", "sgd:lr=0.1,momentum=0.9", "adamw:lr=1e-2")
SCHEDULES = ("cosine:cycles=7,warmup=5%,min=1e-3", "polynomial:power=2.5,min=1e-3", "polynomial:power=0.5,warmup=5", "inverse-sqrt:warmup=10%",
             "wsd:warmup=3,decay=33%,min=1e-4", "one-cycle", "one-cycle:up=0.5,start=1e-3,end=0", "linear:warmup=7", "step:every=20,gamma=0.3,warmup=5%")

# Optimiser, schedule, and options: the gradients of several steps, and averages.
ACCUMULATED = [(optimizer, "constant", ["--accumulate", "3"]) for optimizer in OPTIMIZERS]
ACCUMULATED += [("lion:lr=1e-2", schedule, ["--accumulate", "2"]) for schedule in SCHEDULES[::2]]
ACCUMULATED += [(optimizer, "linear:warmup=2", ["--ema", "0.9", *more]) for optimizer in OPTIMIZERS[-2:] for more in ([], ["--accumulate", "4"])]
ACCUMULATED += [(optimizer, "plateau:every=3,patience=1,threshold=0.1,factor=0.5", []) for optimizer in OPTIMIZERS]
ACCUMULATED += [(optimizer, schedule, ["--accumulate", "2", "--ema", "0.9", "--clip-norm", "0.5", "--group", "rank<2:weight-decay=0.2,lr=0.5x"])
                for optimizer in ("adamw:lr=1e-2", "lion:lr=1e-2,betas=0.8/0.95,weight-decay=0.1")
                for schedule in ("plateau:every=2,patience=0,threshold=0.3,warmup=10%,cooldown=2", "plateau:every=1,patience=0,threshold=0.9,factor=0.3,min=1e-3")]
ACCUMULATED += [("adagrad:lr=0.1,lr-decay=0.05", "linear:warmup=2", ["--accumulate", "5", "--clip-norm", "0.05"]),
                ("sgd:lr=0.1,momentum=0.9", "constant", ["--accumulate", "60", "--clip-norm", "1e9"])]
UPDATES = [(optimizer, schedule, more) for optimizer in ("adamw:lr=1e-2", "rmsprop:lr=3e-3,momentum=0.9,centered", "adagrad:lr=0.1,lr-decay=0.05")
           for schedule, more in (("cosine:warmup=5%", ["--group", "*.bias:lr=3x", "--group", "0.*:weight-decay=0.3,lr=0.1x"]),
                                  ("constant", ["--freeze", "*.bias", "--ema", "0.5", "--clip-norm", "0.5"]))]
WORKERS = [(optimizer, "constant", ["--workers", str(workers), *more]) for optimizer in ("sgd:lr=0.1,momentum=0.9", "adamw:lr=1e-2")
           for workers, more in ((2, []), (4, ["--accumulate", "3", "--clip-norm", "0.5", "--ema", "0.9"]), (4, ["--freeze", "*.bias"]))]
COMPRESSED = [(f"dgc:lr=0.1,{options}", schedule, more) for options, schedule, more in (
    ("warmup=40,density=0.2", "constant", ["--workers", "2"]),
    ("warmup=30,density=0.01,bits=8,clip=0.05,weight-decay=0.1", "cosine:warmup=5", ["--workers", "4"]),
    ("momentum=0,density=0.5,clip=1e9", "constant", ["--workers", "2", "--ema", "0.9", "--group", "*.bias:lr=3x", "--group", "*:weight-decay=0.2"]),
    ("momentum=0.5,density=0.3", "plateau:every=3,patience=1,threshold=0.1,factor=0.5", ["--workers", "4", "--freeze", "*.bias"]),
    ("warmup=1,density=1,bits=8", "constant", []),
    ("weight-decay=0.1,density=0.1", "plateau:every=3,patience=1,threshold=0.1,factor=0.5", []))]
# Of losses that fall below zero without end, so that a window better by less than a share of the best one comes.
BELOW_ZERO = [("sgd:lr=0.01,momentum=0.5", "plateau:every=5,patience=1,threshold=0.3,factor=0.5", []),
              ("adamw:lr=1e-2", "plateau:every=2,patience=0,threshold=0.2,factor=0.3", ["--accumulate", "2", "--ema", "0.9"])]


SENT = {}  # by parameter, in each step after the warm-up: what share the workers sent, as a multiple of the density
FALLS = {False: 0, True: 0}  # how often plateau lowered a rate; True: after a window whose mean loss was below zero


def fma(a, b, c):
    return numbers.apply("fma", list(np.broadcast_arrays(F32(a), F32(b), F32(c))))


def function(name, x):
    return numbers.apply(name, [x])


def above(x, low):
    """max of dgx-numerics(7)."""
    return np.where(x > F32(low), x, F32(low))


def loss_of(task, x, t):
    """Each number's loss and its derivative by the output, times the count."""
    spec = task["loss"] if isinstance(task["loss"], dict) else {"kind": task["loss"]}
    if spec["kind"] == "output":
        return x, np.ones_like(x)
    t = t.astype(F32)
    if spec["kind"] == "bce":
        soft = function("log1p", function("exp", -np.abs(x))) + above(-x, 0)
        s = F32(1) / (F32(1) + function("exp", -x))
        if "pos_weights" not in spec:
            return fma(F32(1) - t, x, soft), s - t
        w = np.array([float.fromhex(number) for number in spec["pos_weights"]]).astype(F32)
        part = fma(w - F32(1), t, 1)
        return fma(F32(1) - t, x, part * soft), part * s - w * t
    d = x - t
    if spec["kind"] == "mse":
        return d * d, d + d
    if spec["kind"] == "l1":
        return np.abs(d), (d > 0).astype(F32) - (d < 0).astype(F32)
    delta = float.fromhex(spec.get("delta", "0x1p0"))
    z, half = np.abs(d), F32(0.5 * delta)
    delta = F32(delta)
    clipped = above(d, -delta)
    return np.where(z <= delta, (F32(0.5) * z) * z, delta * (z - half)), np.where(clipped < delta, clipped, delta)


def means(pattern, name, parameter):
    return parameter.ndim < int(pattern[5:]) if pattern.startswith("rank<") else fnmatch.fnmatchcase(name, pattern)


class Updates:
    """The optimiser's formulas on one parameter, with its entries in `state`."""

    def __init__(self, task, state, step, factor, name):
        """`factor` is plateau's in this step; None with another schedule. `name` is the parameter's."""
        self.task, self.spec, self.state, self.step, self.factor = task, task["optimizer"], state, step, factor
        self.name, self.group = name, {}
        for number, group in enumerate(task.get("groups", ()), 1):
            if means(group["match"], name, state["model/" + name]) and not self.group:
                self.group = {"number": number, **group}

    def number(self, field):
        return float.fromhex(self.group.get(field, self.spec[field]) if field == "weight_decay" else self.spec[field])

    def scheduled(self, name):
        has_group = self.group and name != "1/sqrt(1-b2^t)"
        number = inputs.scalar(self.task, f"{name}:{self.group['number']}" if has_group else name, self.step)
        return number if self.factor is None or name == "1/sqrt(1-b2^t)" else F32(number) * self.factor

    def shrunk(self, p):
        if not self.number("weight_decay"):
            return p
        return p * (self.scheduled("1-lr*wd") if self.factor is None else fma(self.scheduled("-lr"), self.number("weight_decay"), 1))

    def decayed(self, p, g):
        return fma(self.number("weight_decay"), p, g) if self.number("weight_decay") else g

    def update(self, g):
        p = self.state["model/" + self.name]
        self.state["model/" + self.name] = getattr(self, self.spec["kind"])(p, g, lambda kind: f"optimizer/{kind}/{self.name}")

    def lion(self, p, g, entry):
        m = self.state[entry("exp_avg")]
        c = fma(1 - self.number("beta1"), g - m, m)
        self.state[entry("exp_avg")] = fma(1 - self.number("beta2"), g - m, m)
        p = self.shrunk(p)
        return fma(self.scheduled("-lr"), (c > 0).astype(F32) - (c < 0).astype(F32), p)

    def rmsprop(self, p, g, entry):
        alpha, d = self.number("alpha"), self.decayed(p, g)
        v = self.state[entry("square_avg")] = fma(d * d, 1 - alpha, self.state[entry("square_avg")] * F32(alpha))
        if self.spec["centered"]:
            a = self.state[entry("grad_avg")]
            a = self.state[entry("grad_avg")] = fma(1 - alpha, d - a, a)
            v = above(fma(-a, a, v), 0)
        q = d / (np.sqrt(v) + F32(self.number("eps")))
        if self.number("momentum"):
            q = self.state[entry("momentum")] = fma(self.number("momentum"), self.state[entry("momentum")], q)
        return fma(self.scheduled("-lr"), q, p)

    def adagrad(self, p, g, entry):
        d = self.decayed(p, g)
        a = self.state[entry("sum")] = fma(d, d, self.state[entry("sum")])
        if self.number("initial"):
            a = a + F32(self.number("initial"))
        rate = self.scheduled("-lr/(1+s*ld)" if self.number("lr_decay") else "-lr")
        return fma(rate, d / (np.sqrt(a) + F32(self.number("eps"))), p)

    def sgd(self, p, g, entry):
        b = self.state[entry("momentum")] = fma(self.number("momentum"), self.state[entry("momentum")], self.decayed(p, g))
        return fma(self.scheduled("-lr"), b, p)

    def dgc(self, p, g, entry):
        entries, sent, total = compressed.update(self.spec, self.state, self.name, g, self.step)
        self.state.update(entries)
        if self.step >= self.spec["warmup"]:
            SENT.setdefault(self.name, []).append(np.count_nonzero(sent) / sent.size / self.number("density"))
        return fma(self.scheduled("-lr"), total, self.shrunk(p))

    def adam(self, p, g, entry):
        return self.adamw(p, self.decayed(p, g), entry, p)

    def adamw(self, p, g, entry, shrunk=None):
        m, v = self.state[entry("exp_avg")], self.state[entry("exp_avg_sq")]
        m = self.state[entry("exp_avg")] = fma(1 - self.number("beta1"), g - m, m)
        v = self.state[entry("exp_avg_sq")] = fma(g * g, 1 - self.number("beta2"), v * F32(self.number("beta2")))
        q = m / fma(np.sqrt(v), self.scheduled("1/sqrt(1-b2^t)"), self.number("eps"))
        return fma(-self.scheduled("lr/(1-b1^t)"), q, self.shrunk(p) if shrunk is None else shrunk)


def dot(a, b):
    """Matrix product of [rows, n] and [n, columns] by folds; access 0 carries the rows."""
    rows, columns = len(a), b.shape[1]
    terms = [np.broadcast_to(x, (a.shape[1], rows, columns)).reshape(a.shape[1], -1) for x in (a.T[:, :, None], b[:, None, :])]
    return folds.dot(*terms).reshape(rows, columns)


def train_step(task, state, x, t, step):
    """A linear model: the output is x W' + b."""
    output = dot(x, state["model/0.weight"].T) + state["model/0.bias"]
    losses, slope = loss_of(task, output, t)
    count = F32(losses.size)
    factor = None
    state["loss"] = np.array(folds.sum(losses.reshape(-1, 1))[0] / count, F32)
    if task["schedule"]["kind"] == "plateau":
        factor = plateau(task, state, step)
    workers = task.get("workers", 1)
    each = [gradients_of(g, part) for g, part in zip(np.split(slope / count, workers), np.split(x, workers))]
    apart = task["optimizer"]["kind"] == "dgc"
    gradients = {name: (np.stack if apart else added)([worker[name] for worker in each]) if apart or workers > 1 else each[0][name] for name in each[0]}
    trained = {name: gradient for name, gradient in gradients.items() if not any(means(pattern, name, each[0][name]) for pattern in task.get("freeze", ()))}
    gradients = clipped(task, accumulated(task, state, trained, step))
    if (step + 1) % task.get("accumulate", 1) == 0:
        for name, gradient in gradients.items():
            Updates(task, state, step, factor, name).update(gradient)
            if "ema" in task:
                average = state[f"optimizer/ema/{name}"]
                state[f"optimizer/ema/{name}"] = fma(1 - float.fromhex(task["ema"]), state["model/" + name] - average, average)
    state["step"] = np.array(step + 1, "<i8")


def gradients_of(g, x):
    return {"0.weight": dot(g.T, x), "0.bias": dot(np.ones((1, len(g)), F32), g)[0]}


def added(gradients):
    """The sum of the workers' gradients, in their order, from +0."""
    total = np.zeros_like(gradients[0])
    for gradient in gradients:
        total = total + gradient
    return total


def plateau(task, state, step):
    """The factor of the learning rate in this step; sets the entries for the next."""
    rule, n = task["schedule"], task.get("accumulate", 1)
    mean, best, factor, bad = (state[f"optimizer/plateau/{name}"] for name in ("mean", "best", "factor", "bad"))
    window, past = rule["every"] * n, step + 1 - rule["warmup"] * n
    now = F32(1) if step == 0 else factor
    seen = fma(state["loss"], 1 / window, mean) if past > 0 else F32(0)
    state["optimizer/plateau/mean"] = np.array(seen, F32)
    state["optimizer/plateau/factor"] = np.array(now, F32)
    if past <= 0 or past % window:
        return now
    better = past <= window or seen < fma(-F32(float.fromhex(rule["threshold"])), abs(best), best)
    count = bad + 1 if bad < 0 or not better else np.int64(0)
    state["optimizer/plateau/mean"] = np.zeros((), F32)
    if better:
        state["optimizer/plateau/best"] = np.array(seen, F32)
    if count > rule["patience"]:
        least = F32(float.fromhex(rule["min"]) / float.fromhex(task["optimizer"]["lr"]))
        state["optimizer/plateau/factor"] = np.array(max(now * F32(float.fromhex(rule["factor"])), least), F32)
        count = -rule["cooldown"]
        FALLS[bool(seen < 0)] += 1
    state["optimizer/plateau/bad"] = np.array(count, "<i8")
    return now


def accumulated(task, state, gradients, step):
    """What an update sees of the gradients."""
    count = task.get("accumulate", 1)
    if count == 1:
        return gradients
    means = {name: fma(g, 1 / count, state[f"optimizer/gradient/{name}"]) for name, g in gradients.items()}
    for name, mean in means.items():
        state[f"optimizer/gradient/{name}"] = np.zeros_like(mean) if (step + 1) % count == 0 else mean
    return means


def clipped(task, gradients):
    if "clip_norm" not in task:
        return gradients
    total = sum(folds.sum((g * g).reshape(-1, 1))[0] for g in gradients.values())
    scale = np.minimum(F32(float.fromhex(task["clip_norm"])) / (np.sqrt(F32(total)) + F32(1e-6)), F32(1))
    return {name: g * scale for name, g in gradients.items()}


def check(bench, name, data, loss, optimizer, schedule, more=(), model=f"mlp:{WIDTH}-{OUTPUTS}", steps=STEPS):
    model = "linear.pt2" if loss == "output" else model
    bench.run("dgx-submit", "--data", f"{data}.h5", "--model", model, "--loss", loss, "--optimizer", optimizer, "--schedule", schedule, *more,
              "--batch", str(BATCH), "--steps", str(steps), "--seed", "5", "--checkpoint-every", "30", "--key", "key.pem", "-o", f"{name}.json")
    done = bench.run("dgx-train", f"{name}.json", "--data", f"{data}.h5", "-o", f"{name}.run", "--threads", "1")
    task = statements.read(bench.path(f"{name}.json")).predicate
    fields, _ = read_dataset(bench, f"{data}.h5")
    stored = read_state(bench.path(f"{name}.run/checkpoint-{steps:010}-{done['state'][:12]}.h5"))
    lines = [{"src": f"state {entry}", "s": list(array.shape), "t": {"<f4": "f32", "<i8": "i64"}[array.dtype.str]} for entry, array in stored.items()]
    state = read_state(bench.path(f"{name}.init.h5")) if loss == "output" else inputs.initial_state(lines, 5)
    for step in range(steps):
        chosen = inputs.batch_indices(5, SAMPLES, BATCH, step)
        train_step(task, state, fields["x"][chosen], fields["y"][chosen] if "y" in fields else None, step)
    for entry, array in stored.items():
        bench.check(array.tobytes() == np.ascontiguousarray(state[entry]).tobytes(), f"{loss}, {optimizer}, {schedule}, {' '.join(more)}: {entry}")


def check_sampled(bench):
    """Tensors of which every second number is in the sample; after the warm-up the workers send what they are to, up to a factor of two."""
    chance = np.random.default_rng(8)
    for field in ("x", "y"):
        np.save(bench.path(f"{field}.npy"), chance.normal(size=(SAMPLES, WIDE)).astype(F32))
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "wide.h5")
    SENT.clear()
    check(bench, "wide", "wide", "huber", "dgc:lr=0.1,density=0.001,warmup=8", "constant", ["--workers", "2"], f"mlp:{WIDE}-{WIDE}", 60)
    shares = np.array(SENT["0.weight"])
    bench.check(len(shares) == 52 and 0.5 <= shares.min() and shares.max() <= 2, f"sent after the warm-up: {shares} times the density")
    print(f"sent of {WIDE * WIDE} numbers after the warm-up: {shares.mean():.3f} times the density, {shares.min():.3f} to {shares.max():.3f}")


def check_large_batch(bench, optimizer):
    """A hundred updates of three small batches each, and of one as large as these."""
    weights = []
    kind = optimizer.partition(":")[0]
    for name, batch, steps, more in ((f"{kind}-small", 4, 300, ["--accumulate", "3"]), (f"{kind}-large", 12, 100, [])):
        bench.run("dgx-submit", "--data", "targets.h5", "--model", f"mlp:{WIDTH}-{OUTPUTS}", "--loss", "mse", "--optimizer", optimizer, "--schedule",
                  "cosine:warmup=10", "--batch", str(batch), "--steps", str(steps), *more, "--key", "key.pem", "-o", f"{name}.json")
        bench.run("dgx-train", f"{name}.json", "--data", "targets.h5", "-o", f"{name}.run", "--threads", "1")
        bench.run("dgx-inspect", "export", f"{name}.run", "-o", f"{name}.npz")
        with np.load(bench.path(f"{name}.npz")) as found:
            weights.append({entry: found[entry] for entry in found.files})
    for entry, small in weights[0].items():
        bench.check(np.abs(small - weights[1][entry]).max() <= 1e-5, f"{optimizer}: {entry} of small batches")
        bench.check(np.abs(small).max() > 1e-2, f"{optimizer}: {entry} has learnt nothing")


def save_linear(bench):
    """A linear model whose loss is the mean of its outputs."""
    net = Export()
    x = net.input("x", ["s0", WIDTH])
    weight, bias = net.parameter("0.weight", uniform((OUTPUTS, WIDTH), 1)), net.parameter("0.bias", uniform((OUTPUTS,), 2))
    net.save(bench.path("linear.pt2"), net.call("mean", self=net.call("linear", input=x, weight=weight, bias=bias)))


def main():
    options = support.parsed(support.parser())
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "key")
        chance = np.random.default_rng(3)
        x = chance.normal(size=(SAMPLES, WIDTH)).astype(F32)
        for name, y in (("labels", chance.integers(0, 2, (SAMPLES, OUTPUTS)).astype(np.uint8)), ("shares", chance.random((SAMPLES, OUTPUTS)).astype(F32)),
                        ("targets", chance.normal(size=(SAMPLES, OUTPUTS)).astype(F32))):
            np.save(bench.path("x.npy"), x)
            np.save(bench.path("y.npy"), y)
            bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", f"{name}.h5")
        bench.run("dgx-pack", "npy", "--x", "x.npy", "-o", "alone.h5")
        save_linear(bench)
        cases = [("labels" if loss == "bce:pos-weights=1.7" else "shares" if loss.startswith("bce") else "targets", loss, "sgd:lr=0.1,momentum=0.9", "constant")
                 for loss in LOSSES]
        cases += [("labels", "bce", optimizer, "constant") for optimizer in OPTIMIZERS]
        cases += [("targets", "huber", "adagrad:lr=0.1,lr-decay=0.01" if number % 2 else "lion:lr=1e-2", schedule) for number, schedule in enumerate(SCHEDULES)]
        cases += [("labels", "bce", *case) for case in ACCUMULATED + UPDATES + WORKERS + COMPRESSED]
        cases += [("alone", "output", *case) for case in BELOW_ZERO]
        for optimizer in ("sgd:lr=0.1,momentum=0.9", "adamw:lr=1e-2"):
            check_large_batch(bench, optimizer)
        check_sampled(bench)
        for number, case in enumerate(cases):
            check(bench, f"case{number}", *case)
        bench.check(FALLS[False] > 20 and FALLS[True] > 2, f"plateau fell only {FALLS[False]} times, and {FALLS[True]} below zero")
        print(f"{len(cases)} trainings of {STEPS} steps")


main()
