"""The stored tasks of tests/vectors/tasks, and data for them: what tests of the programs share. Needs no libtorch.

quickstart  the honest task of examples/quickstart.sh, on Fashion-MNIST
small       mlp:144-64-10 on 2,000 samples made here, 300 steps, a checkpoint every 10
"""

import hashlib
import json
import os
import struct
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "support"))
import needs  # noqa: E402
TASKS = os.path.join(TESTS, "vectors", "tasks")
DIGESTS = os.path.join(TESTS, "vectors", "quickstart.json")
ISAS = ("scalar", "avx2", "avx512", "neon")

SUBMIT = {
    "quickstart": ["--model", "mlp:784-256-128-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--schedule",
                   "cosine:warmup=100,min=0", "--batch", "128", "--epochs", "10", "--seed", "1", "--checkpoint-every", "200"],
    "small": ["--model", "mlp:144-64-10", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "32", "--steps",
              "300", "--seed", "1", "--checkpoint-every", "10"],
}


def stored(name):
    return os.path.join(TASKS, f"{name}.json")


def expected():
    with open(DIGESTS) as file:
        return json.load(file)


def run(bin_folder, program, *words, codes=(0,), **options):
    """Exit code and result of a program; AssertionError for another exit code than those expected."""
    command = [os.path.join(bin_folder, program), *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, **options)
    assert done.returncode in codes, f"{' '.join(command)}: exit {done.returncode}: {done.stderr}"
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines else None


def noise(count, tag):
    """So many bytes, the same everywhere."""
    blocks = (hashlib.sha256(tag + struct.pack(">Q", n)).digest() for n in range(-(-count // 32)))
    return b"".join(blocks)[:count]


def write_idx(path, shape, content):
    with open(path, "wb") as file:
        file.write(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + content)


def pack_small(bin_folder, folder):
    """Samples of ten classes: a class's bytes, and noise over them."""
    samples, size = 2000, 144
    labels = bytes(byte % 10 for byte in noise(samples, b"labels"))
    patterns = [noise(size, b"pattern %d" % label) for label in range(10)]
    grain = noise(samples * size, b"grain")
    pixels = bytes(patterns[labels[n // size]][n % size] // 2 + grain[n] // 2 for n in range(samples * size))
    write_idx(os.path.join(folder, "x.idx"), (samples, 12, 12), pixels)
    write_idx(os.path.join(folder, "y.idx"), (samples,), labels)
    data = os.path.join(folder, "small.h5")
    run(bin_folder, "dgx-pack", "idx", "--images", os.path.join(folder, "x.idx"), "--labels", os.path.join(folder, "y.idx"), "--scale",
        "0.00390625", "-o", data)
    return data


def pack_quickstart(bin_folder, folder):
    images, labels = (needs.fashion_mnist(f"train-{kind}") for kind in ("images", "labels"))
    data = os.path.join(folder, "quickstart.h5")
    run(bin_folder, "dgx-pack", "idx", "--images", images, "--labels", labels, "--scale", "0.00392156862745098", "-o", data)
    return data


def train(bin_folder, task, data, out, *words, **options):
    return run(bin_folder, "dgx-train", task, "--data", data, "-o", out, *words, **options)
