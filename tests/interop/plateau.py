#!/usr/bin/python3
"""Where the schedule plateau lowers the rate, by torch itself: plateau.py --bin FOLDER --plugins FOLDER

torch.optim.lr_scheduler.ReduceLROnPlateau is given the mean loss of every window, from the run's log, and must have the learning rate of the log in every
step. A loss below zero is where the two differ on purpose: torch's relative threshold then takes a window that is worse for a better one, dgx asks for
an improvement by that share of the best loss. Exits 77 without NumPy and torch.
"""

import csv

import support
from support import needs

needs.modules("numpy", "torch")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from exported import Export, uniform  # noqa: E402  (of tests/support)

SAMPLES, WIDTH, CLASSES, BATCH, RATE = 40, 5, 3, 4, 0.5
# Optimiser, the schedule's fields, steps of an update, updates.
CASES = [
    ("sgd", {"every": 5, "patience": 0}, 1, 200),
    ("sgd", {"every": 10, "patience": 1, "factor": 0.5, "threshold": 0.01}, 1, 400),
    ("sgd", {"every": 3, "patience": 2, "factor": 0.3, "cooldown": 3}, 1, 300),
    ("sgd", {"every": 4, "patience": 0, "factor": 0.5, "threshold": 0.05, "min": 0.02, "cooldown": 1}, 1, 300),
    ("adam", {"every": 7, "patience": 3, "factor": 0.7, "warmup": 13}, 1, 400),
    ("lion", {"every": 1, "patience": 5, "factor": 0.8}, 1, 200),
    ("sgd", {"every": 2, "patience": 1, "factor": 0.5, "cooldown": 2, "warmup": 6}, 3, 150),
]


def trained(bench, name, data, model, loss, optimizer, fields, accumulate, updates):
    """The rows of the log: each step's loss and rate."""
    spec = "plateau:" + ",".join(f"{key}={value}" for key, value in fields.items())
    more = ["--accumulate", str(accumulate)] if accumulate > 1 else []
    bench.run("dgx-submit", "--data", data, "--model", model, "--loss", loss, "--optimizer", f"{optimizer}:lr={RATE}", "--schedule", spec, *more, "--batch",
              str(BATCH), "--steps", str(updates * accumulate), "--seed", "3", "--key", "key.pem", "-o", f"{name}.json")
    bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{name}.run", "--threads", "1")
    with open(bench.path(f"{name}.run/log.csv"), encoding="utf-8") as file:
        return [(float(row["loss"]), float(row["learning_rate"])) for row in csv.DictReader(file)]


def torchs_rates(losses, fields, accumulate):
    """The rate of every step after the warm-up."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=fields.get("factor", 0.1), patience=fields["patience"], threshold=fields.get("threshold", 1e-4), cooldown=fields.get("cooldown", 0),
        min_lr=fields.get("min", 0), eps=0)
    window = fields["every"] * accumulate
    rates = []
    for at in range(0, len(losses), window):
        rates += [optimizer.param_groups[0]["lr"]] * len(losses[at:at + window])
        if len(losses) - at >= window:
            scheduler.step(np.mean(losses[at:at + window]))
    return rates


def falls(rates):
    return [step for step in range(1, len(rates)) if rates[step] < rates[step - 1] * (1 - 1e-6)]


def check_like_torch(bench):
    for n, (optimizer, fields, accumulate, updates) in enumerate(CASES):
        rows = trained(bench, f"case{n}", "data.h5", f"mlp:{WIDTH}-{CLASSES}", "cross-entropy", optimizer, fields, accumulate, updates)
        rows = rows[fields.get("warmup", 0) * accumulate:]
        rates = [rate for _, rate in rows]
        wanted = torchs_rates([loss for loss, _ in rows], fields, accumulate)
        what = f"{optimizer}, {fields}, {accumulate} steps an update"
        found, expected = falls(rates), falls(wanted)
        bench.check(found == expected, f"{what}: the rate falls at {found}, torch's at {expected}")
        bench.check(np.allclose(rates, wanted, rtol=1e-6, atol=0), f"{what}: rates")
        bench.check(len(found) >= 3, f"{what}: it falls only at {found}")
        print(f"{what}: falls at {found}, as torch's")


def check_below_zero(bench):
    """A loss that falls on a straight line through zero: no window is better by a third of the best one in the end."""
    net = Export()
    x = net.input("x", ["s0", WIDTH])
    y = net.call("linear", input=x, weight=net.parameter("weight", uniform((1, WIDTH), 1)), bias=net.parameter("bias", uniform((1,), 2)))
    net.save(bench.path("line.pt2"), net.call("mean", self=y))
    fields = {"every": 10, "patience": 0, "factor": 0.5, "threshold": 0.3}
    rows = trained(bench, "line", "ones.h5", "line.pt2", "output", "sgd", fields, 1, 120)
    losses, rates = [loss for loss, _ in rows], [rate for _, rate in rows]
    wanted, best, rate = [], None, RATE
    for at in range(0, len(losses), fields["every"]):
        wanted += [rate] * fields["every"]
        mean = np.mean(losses[at:at + fields["every"]])
        if best is None or mean < best - fields["threshold"] * abs(best):
            best = mean
        else:
            rate *= fields["factor"]
    bench.check(losses[-1] < 0 and falls(rates) == falls(wanted) and len(falls(rates)) >= 2, f"below zero the rate falls at {falls(rates)}, not {falls(wanted)}")
    bench.check(falls(torchs_rates(losses, fields, 1)) == [], "torch's rule is another one now: say so in dgx-submit(1)")
    print(f"below zero: falls at {falls(rates)}")


def main():
    options = support.arguments()
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "key")
        chance = np.random.default_rng(3)
        np.save(bench.path("x.npy"), chance.normal(size=(SAMPLES, WIDTH)).astype("f4"))
        np.save(bench.path("y.npy"), chance.integers(0, CLASSES, SAMPLES).astype("u1"))
        np.save(bench.path("ones.npy"), np.ones((SAMPLES, WIDTH), "f4"))
        bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
        bench.run("dgx-pack", "npy", "--x", "ones.npy", "-o", "ones.h5")
        check_like_torch(bench)
        check_below_zero(bench)


if __name__ == "__main__":
    main()
