"""One task, one result: quickstart.py --bin FOLDER [--task small|quickstart] [--isa NAME] [--full]

The stored tasks lead to the stored state digests (tests/vectors/quickstart.json) with every instruction set of this processor, with one
and two threads, in one go and in pieces; --full trains the whole of the quickstart's task, too. Exits 77 where the quickstart's task is to
be trained without Fashion-MNIST, or an instruction set is asked for that this processor has not.
"""

import argparse
import os
import sys
import tempfile

import tasks
from tasks import needs

# After how many steps a run is stopped and compared; on scalar instructions after the first of them.
STEPS = {"small": (20, 300), "quickstart": (20, 60)}
failures = 0


def check(got, wanted, what):
    global failures
    if got != wanted:
        failures += 1
        print(f"FAILED: {what}: {got}, expected {wanted}")


def available(bin_folder, folder, data):
    """Instruction sets that this machine has."""
    found = []
    for isa in tasks.ISAS:
        code, _ = tasks.train(bin_folder, tasks.stored("small"), data, os.path.join(folder, f"probe-{isa}"), "--isa", isa, "--until", "1",
                              codes=(0, 2))
        found += [isa] if code == 0 else []
    return found


def check_states(bin_folder, folder, name, data, isa, threads, steps):
    """A run of its own, stopped at each of the steps."""
    os.makedirs(folder, exist_ok=True)
    run = os.path.join(folder, f"{name}-{isa}-{threads}")
    for step in steps:
        done = tasks.train(bin_folder, tasks.stored(name), data, run, "--isa", isa, "--threads", str(threads), "--until", str(step))[1]
        check(done["state"], tasks.expected()[name]["states"][str(step)], f"{name}, {isa}, {threads} threads, after step {step}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--task", choices=STEPS, action="append", help="default: both")
    parser.add_argument("--isa", choices=tasks.ISAS, help="default: all that this processor has")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    bin_folder, names = options.bin, options.task or list(STEPS)
    with tempfile.TemporaryDirectory(prefix="dgx-repro-") as folder:
        small = tasks.pack_small(bin_folder, folder)
        there = available(bin_folder, folder, small)
        print("instruction sets:", *there)
        check("scalar" in there, True, "every processor has the scalar instruction set")
        if options.isa and options.isa not in there:
            needs.skip(f"this processor has no {options.isa}")
        isas = [options.isa] if options.isa else there
        for name in names:
            data = small if name == "small" else tasks.pack_quickstart(bin_folder, folder)
            for isa in isas:
                for threads in (1, 2):
                    check_states(bin_folder, folder, name, data, isa, threads, STEPS[name][:1] if isa == "scalar" else STEPS[name])
        if options.full and "quickstart" in names:
            last = max(map(int, tasks.expected()["quickstart"]["states"]))
            check_states(bin_folder, os.path.join(folder, "full"), "quickstart", data, isas[-1], 2, (last,))
    needs.counted(2 * len(isas) * len(names), 0)
    sys.exit(1 if failures else 0)


main()
