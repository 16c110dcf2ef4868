"""Every scalar operation and fold, by the built programs and by the second implementation: numpy_operations.py --bin FOLDER --plugins FOLDER

Programs are written by chance (generator.py) and signed as tasks without dgx-submit; dgx-train with every instruction set and dgx-bisect
must find the bits that NumPy finds, of every value and of the states. One program has a fixed seed, one a fresh seed, which is
printed; --seed N repeats it. Exits 77 without NumPy, h5py and cryptography.
"""

import json
import random
import sys

try:
    import cryptography  # noqa: F401
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import generator
import support
from spec import digests, inputs, program, written

OPTIONS = {"batch": 4, "steps": 3, "checkpoint_every": 3, "loss": "mse", "schedule": {"kind": "cosine", "min": "0x1p-20", "warmup": 1},
           "optimizer": {"kind": "adamw", "lr": "0x1.999999999999ap-4", "beta1": "0x1.ccccccccccccdp-1", "beta2": "0x1.ff7ced916872bp-1",
                         "eps": "0x1.5798ee2308c3ap-27", "weight_decay": "0x1.47ae147ae147bp-7"}}
# The loss of a whole batch.
EVALUATION = [{"k": "input", "s": [4, 3], "src": "batch mask", "t": "u8", "v": 0}, {"k": "input", "s": [4, 2, 2], "src": "batch weight_2", "t": "f32", "v": 1},
              {"do": ["f32 x0", "mul t0 x1"], "f": [4, 2], "k": "sum", "s": [], "t": "f32", "v": 2, "x": ["0[k0,k1]", "1[k0,k1,0]"]}]


def small_data(bench):
    """Finite floats of all sizes and integers that index, are negative or large."""
    chance = np.random.default_rng(11)
    bits = chance.integers(0, 2**32, [12, 6, 8], dtype=np.uint32)
    x = bits.view(np.float32)
    x[~np.isfinite(x)] = 0.75
    x[::2, ::2] = chance.normal(size=x[::2, ::2].shape)
    y = chance.integers(-3, 12, [12, 5])
    y[:, 0] = chance.integers(-(2**53), 2**53, 12)
    data = {"x": x, "y": y, "mask": chance.integers(0, 256, [12, 3], dtype=np.uint8), "weight_2": chance.normal(size=[12, 2, 2]).astype("<f4")}
    for name, array in data.items():
        np.save(bench.path(f"{name}.npy"), array)
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "--field", "weight_2=weight_2.npy", "--field", "mask=mask.npy", "-o", "data.h5")
    with h5py.File(bench.path("data.h5"), "r") as file:
        recipe = file.attrs["recipe"]
        bench.check(file.attrs["digest"].decode() == digests.dataset(data, recipe), "the digest of four fields")
        bench.check(json.loads(recipe)["ranges"].keys() == {"mask", "y"}, "ranges of the fields of integers")
        for name, array in data.items():
            bench.check(np.array_equal(file[name][()].view(np.uint8), array.view(np.uint8)), f"field {name}")
        return data, recipe


def instruction_sets(bench, name):
    found = []
    for isa in ("scalar", "avx2", "avx512", "neon"):
        if bench.run("dgx-train", f"{name}.json", "--data", "data.h5", "-o", f"{name}.probe-{isa}", "--isa", isa, "--until", "1", codes=(0, 2)):
            found.append(isa)
    return found


def check_values(bench, name, step, table):
    bench.run("dgx-bisect", "trace", f"{name}.json", "--from", f"{name}.run", "--segment", "0", "--step", str(step), "--data", "data.h5", "-o",
              f"{name}-{step}.trace.h5")
    with h5py.File(bench.path(f"{name}-{step}.trace.h5"), "r") as file:
        theirs = [bytes(row) for row in file["values"][()]]
    bench.check(len(theirs) == len(table), f"{name}: number of values")
    return [number for number, digest in enumerate(theirs) if digest != digests.tensor(table[number])]


def show(bench, name, step, number, lines, table):
    """The first elements of a value that differ."""
    bench.run("dgx-bisect", "trace", f"{name}.json", "--from", f"{name}.run", "--segment", "0", "--step", str(step), "--value", str(number),
              "--data", "data.h5", "-o", f"{name}-{step}-{number}.trace.h5")
    with h5py.File(bench.path(f"{name}-{step}-{number}.trace.h5"), "r") as file:
        theirs = file["numbers"][()]
    ours, width = table[number], f"|u{table[number].dtype.itemsize}"
    places = np.argwhere(np.atleast_1d(ours.view(width) != theirs.view(width)))[:4]
    what = [(tuple(place), np.atleast_1d(theirs)[tuple(place)], np.atleast_1d(ours)[tuple(place)]) for place in places]
    bench.check(False, f"{name}, step {step}, value {number}: {json.dumps(lines[number])}: theirs and ours {what}")


def check_program(bench, name, seed, data, recipe):
    made = generator.Program(seed, OPTIONS["batch"], data)
    made.every_operation()
    made.random_lines(12)
    made.keep()
    lines = made.lines
    task = written.task_of(lines, EVALUATION, data, recipe, {**OPTIONS, "seed": str(seed)})
    written.write_task(bench.path(f"{name}.json"), lines, EVALUATION, task)
    state = inputs.initial_state(lines, seed)
    ways = [(isa, threads) for isa in instruction_sets(bench, name) for threads in ("1", "2")]
    bench.run("dgx-train", f"{name}.json", "--data", "data.h5", "-o", f"{name}.run")
    for step in range(OPTIONS["steps"]):
        table, state = program.run_step(lines, task, state, data, step)
        for number in check_values(bench, name, step, table):
            show(bench, name, step, number, lines, table)
        for isa, threads in ways:
            done = bench.run("dgx-train", f"{name}.json", "--data", "data.h5", "-o", f"{name}.{isa}.{threads}", "--isa", isa, "--threads", threads, "--until",
                             str(step + 1))
            bench.check(done["state"] == digests.state(state), f"{name}: state after step {step}, {isa}, {threads} threads")


def check_evaluation(bench, name, data):
    """The mean over whole batches: of all 12 samples, and of the first 10, of which 2 are left out, and which are packed from an archive."""
    np.savez(bench.path("data.npz"), **data)
    bench.run("dgx-pack", "npz", "data.npz", "--x", "x", "--y", "y", "--field", "mask=mask", "weight_2=weight_2", "--first", "10", "-o", "ten.h5")
    bench.run("dgx-pack", "npz", "data.npz", "--x", "x", "--y", "y", "--field", "mask=mask", "weight_2=weight_2", "--first", "3", "-o", "three.h5")
    bench.run("dgx-pack", "npz", "data.npz", "--x", "x", "--y", "y", "--field", "mask=mask", "-o", "fewer.h5")
    for file, samples in (("data.h5", 12), ("ten.h5", 10)):
        losses = []
        for first in range(0, samples - 3, 4):
            table = [data["mask"][first:first + 4], data["weight_2"][first:first + 4]]
            losses.append(float(program.Line(EVALUATION[2], table).value()))
        found = bench.run("dgx-train", f"{name}.json", "--data", file, "--evaluate", f"{name}.run")
        bench.check(found["loss"] == sum(losses) / len(losses), f"{file}: loss of whole batches: {found}")
        bench.check((found["samples"], found.get("left_out", 0)) == (samples // 4 * 4, samples % 4), f"{file}: samples left out: {found}")
    bench.run("dgx-train", f"{name}.json", "--data", "three.h5", "--evaluate", f"{name}.run", codes=(65,))
    bench.run("dgx-train", f"{name}.json", "--data", "fewer.h5", "--evaluate", f"{name}.run", codes=(65,))


def main():
    parser = support.parser()
    parser.add_argument("--seed", type=int, help="of the only program")
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        data, recipe = small_data(bench)
        fresh = options.seed or random.SystemRandom().randrange(2**53)
        print("fresh seed", fresh)
        for number, seed in enumerate([fresh] if options.seed else [1, fresh]):
            check_program(bench, f"program{number}", seed, data, recipe)
        check_evaluation(bench, "program0", data)


if __name__ == "__main__":
    main()
