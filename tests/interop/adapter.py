#!/usr/bin/python3
"""A small adapter on a large frozen model through the programs: adapter.py --bin FOLDER … [--width N] [--cost]

The frozen weights are stored once in a run and once in a sample, and read once; states and proofs are what they would be without that. Prints the sizes.
--width: of the layers, 1024 unless given. --cost: prints and bounds what a checkpoint costs, and nothing else; what runs beside it takes part in the measure,
by its share of caches and of the disk. Exits 77 without NumPy.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import needs  # noqa: E402

needs.modules("numpy")
import numpy  # noqa: E402
from exported import Export, uniform  # noqa: E402

RANK, CLASSES = 2, 4


def adapter(width, seed=0):
    """Two frozen layers, each with a product of low rank beside it, and a frozen head."""
    net = Export()
    h = net.input("x", ["s0", width])
    for n in range(2):
        base = net.parameter(f"layer{n}.weight", uniform((width, width), seed + n), trained=False)
        a = net.parameter(f"layer{n}.a", uniform((RANK, width), 10 + n))
        b = net.parameter(f"layer{n}.b", uniform((width, RANK), 20 + n))
        low = net.call("linear", input=net.call("linear", input=h, weight=a), weight=b)
        h = net.call("relu", self=net.call("add.Tensor", self=net.call("linear", input=h, weight=base), other=low))
    head = net.parameter("head", uniform((CLASSES, width), 30), trained=False)
    net.save("adapter.pt2", net.call("linear", input=h, weight=head))


class Programs:
    def __init__(self, folder, width):
        self.folder, self.width = folder, width

    def __call__(self, program, *arguments, expect=0):
        done = subprocess.run([os.path.join(self.folder, program), *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == expect, f"{program} {' '.join(arguments)}: exit {done.returncode}: {done.stderr}"
        return done


def submit(run, name, steps, *more):
    return run("dgx-submit", "--data", "data.h5", "--model", "adapter.pt2", "--loss", "cross-entropy", "--optimizer", "sgd:lr=1e-4,momentum=0.9", "--batch", "8",
               "--steps", str(steps), "--key", "alice.pem", "-o", f"{name}.json", *more)


def prepare(run):
    random = numpy.random.default_rng(4)
    numpy.save("x.npy", random.standard_normal((32, run.width)).astype("f4"))
    numpy.save("y.npy", (numpy.arange(32) % CLASSES).astype("u1"))
    run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "data.h5")
    with open("policy.json", "w", encoding="utf-8") as file:
        file.write('{"sample_ppm":1000000}')
    for name in ("alice", "bob", "vera"):
        run("dgx-key", "new", name)
    adapter(run.width)
    submit(run, "task", 10, "--checkpoint-every", "2", "--policy", "policy.json")


def files_of(folder, beginning):
    return sorted(name for name in os.listdir(folder) if name.startswith(beginning))


def states_of(run, folder):
    return [row["digest"] for row in json.loads(run("dgx-inspect", folder, "--json").stdout)["checkpoints"]]


def trained(run):
    """Trained at once, in two calls with a resume point between, with validation, and pruned: one set of digests, and small files."""
    run("dgx-train", "task.json", "--data", "data.h5", "-o", "run", "--validate", "data.h5")
    run("dgx-train", "task.json", "--data", "data.h5", "-o", "parts", "--until", "5")
    assert os.path.getsize("parts/resume.h5") < 100000
    run("dgx-train", "task.json", "--data", "data.h5", "-o", "parts", "--keep", "last")
    run("dgx-train", "prune", "run", "--keep", "every:2")
    assert states_of(run, "run") == states_of(run, "parts")
    whole = os.path.getsize("task.init.h5")
    [base] = files_of("run", "constant-")
    sizes = [os.path.getsize(f"run/{name}") for name in files_of("run", "checkpoint-")] + [os.path.getsize("run/best.h5")]
    print(f"model {whole} bytes, constant entries {os.path.getsize('run/' + base)}, largest checkpoint {max(sizes)}: {100 * max(sizes) / whole:.2f} %")
    assert max(sizes) <= 0.02 * whole
    for name in ("run", "run/best.h5", "run/" + files_of("run", "checkpoint-")[-1]):
        run("dgx-inspect", name, "--check")
    run("dgx-inspect", "export", "run", "-o", "out.npz")
    out = numpy.load("out.npz")
    assert (out["layer0.weight"] == uniform((run.width, run.width), 0)).all() and (out["layer0.b"] != uniform((run.width, RANK), 20)).any()
    return base


def damaged(run, base):
    """A constant file that is gone or changed is named."""
    shutil.copytree("run", "broken")
    os.remove(f"broken/{base}")
    done = run("dgx-inspect", "export", "broken", "-o", "no.npz", expect=66)
    assert f"broken/{base}: does not exist" in done.stderr, done.stderr
    assert "does not exist" in run("dgx-train", "task.json", "--data", "data.h5", "-o", "broken", expect=66).stderr
    with open(f"run/{base}", "rb") as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    with open(f"broken/{base}", "wb") as file:
        file.write(content)
    done = run("dgx-inspect", "export", "broken", "-o", "no.npz", expect=65)
    assert f"broken/{base}: " in done.stderr, done.stderr


def swapped(run, base):
    """A call that goes on with a run takes no constant entries of another."""
    adapter(run.width, seed=100)
    submit(run, "other", 10, "--checkpoint-every", "2")
    for name, steps in (("other", "5"), ("task", "5")):
        run("dgx-train", f"{name}.json", "--data", "data.h5", "-o", f"{name}-begun", "--until", steps)
    adapter(run.width)
    [foreign] = files_of("other-begun", "constant-")
    assert foreign != base

    def going_on(changes, expect=65):
        shutil.rmtree("begun", ignore_errors=True)
        shutil.copytree("task-begun", "begun")
        for source, target in changes:
            shutil.copy(f"other-begun/{source}", f"begun/{target}")
        return run("dgx-train", "task.json", "--data", "data.h5", "-o", "begun", expect=expect).stderr

    words = going_on([(foreign, base)])
    assert f"begun/{base}: has digest {foreign[9:21]}, the states that need it name {base[9:21]}" in words, words
    last, other_last = (files_of(f"{name}-begun", "checkpoint-")[-1] for name in ("task", "other"))
    words = going_on([(foreign, foreign), (other_last, last)])
    assert f"begun/{last}: has the constant entries {foreign[9:21]}, the run's first checkpoint {base[9:21]}" in words, words
    first, other_first = (files_of(f"{name}-begun", "checkpoint-")[0] for name in ("task", "other"))
    words = going_on([(foreign, foreign), (other_last, last), (other_first, first)])
    assert f"begun/{last}: holds state" in words, words
    # A state between two checkpoints that nothing commits to: it is not taken, and the result is the run's.
    going_on([(foreign, foreign), ("resume.h5", "resume.h5"), ("resume.losses", "resume.losses")], expect=0)
    assert states_of(run, "begun") == states_of(run, "run")


def verified(run):
    """Proof, sample and verification, from the sample, the run, and a run that kept only its ends."""
    run("dgx-verify", "beacon", "task.json", "--key", "vera.pem", "-o", "commit.json")
    run("dgx-prove", "task.json", "run", "--key", "bob.pem", "-o", "proof.json")
    run("dgx-verify", "beacon", "commit.json", "--reveal", "proof.json", "--task", "task.json", "--unlogged", "--key", "vera.pem", "-o", "beacon.json")
    run("dgx-prove", "open", "task.json", "proof.json", "--beacon", "beacon.json", "--run", "run", "--data", "data.h5", "-o", "sample.h5")
    size, whole = os.path.getsize("sample.h5"), os.path.getsize("task.init.h5")
    kept = sum(os.path.getsize(f"run/{name}") for name in os.listdir("run"))
    print(f"sample of 5 segments {size} bytes: {size / whole:.2f} of the model")
    assert size < 1.1 * whole
    run("dgx-inspect", "sample.h5", "--check")
    for source in ("sample.h5", "run", "parts"):
        done = run("dgx-verify", "task.json", "proof.json", "--from", source, "--data", "data.h5", "--beacon", "beacon.json", "--key", "vera.pem", "-o",
                   f"{os.path.basename(source)}.verdict.json")
        assert re.search("accepted", done.stdout), done.stdout
    for source, stored in (("sample.h5", size), ("run", kept)):
        read = bytes_read(run, source)
        print(f"verification of five segments read {read} bytes, of {stored} in {source}")
        assert whole < read < 1.5 * whole, read


def bytes_read(run, source):
    """What a verification's processes have read from files and pipes, by the kernel's account of it."""
    command = " ".join([os.path.join(run.folder, "dgx-verify"), f"task.json proof.json --from {source} --data data.h5 --beacon beacon.json --key vera.pem "
                        f"-o counted-{source}.json > log"])
    done = subprocess.run(["sh", "-c", f"{command}; cat /proc/$$/io"], check=True, capture_output=True, text=True, timeout=300)
    return int(re.search(r"rchar: (\d+)", done.stdout)[1])


def seconds_of_training(run, task, name):
    """Processor time of all threads, which hash, compress and write, too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run("dgx-train", f"{task}.json", "--data", "data.h5", "-o", name, "--threads", "1", "--keep", "last")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(name)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def checkpoints_cost(run):
    """The processor time of a checkpoint, hashing included, as a share of that of a segment of the length that dgx-submit chooses.

    The least of up to twelve readings of each: what runs beside them on a shared machine adds to a reading and never takes from it.
    """
    steps, every = 200, json.loads(submit(run, "own", 2000, "--json").stdout)["checkpoint_every"]
    for name, length in (("many", 2), ("few", steps)):
        submit(run, name, steps, "--checkpoint-every", str(length))
    many = few = float("inf")
    for reading in range(1, 13):
        many, few = (min(least, seconds_of_training(run, name, name)) for least, name in ((many, "many"), (few, "few")))
        checkpoint, step = (many - few) / (steps // 2 - 1), few / steps
        share = checkpoint / (every * step)
        if reading >= 3 and share <= 0.02:
            break
    print(f"a checkpoint takes {1000 * checkpoint:.2f} ms, a step {1000 * step:.2f} ms: {100 * share:.2f} % of training in segments of {every} steps")
    assert share <= 0.02


def main():
    parser = argparse.ArgumentParser()
    for name in ("bin", "plugins", "models"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    run = Programs(os.path.abspath(options.bin), options.width)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare(run)
        if options.cost:
            checkpoints_cost(run)
        else:
            base = trained(run)
            damaged(run, base)
            swapped(run, base)
            verified(run)
        os.chdir("/")


if __name__ == "__main__":
    main()
