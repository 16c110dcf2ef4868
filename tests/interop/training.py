"""Tasks and training by a second implementation: training.py --bin FOLDER --plugins FOLDER [--models FOLDER] [--part PART]

Multilayer perceptrons and decoders with every activation, optimiser and schedule (tasks.py says what is compared). --part quickstart: the
quickstart's task, --part scripted: the TorchScript files of make_torchscript, both on Fashion-MNIST. Exits 77 without NumPy, h5py, cryptography or the data.
"""

import os
import sys

try:
    import cryptography  # noqa: F401
    import h5py  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from support import needs
from tasks import Case, check_training

# Together they use every activation, optimiser and schedule.
SMALL = [
    Case("mlp:16-12-5", "cross-entropy", "sgd:lr=0.1,momentum=0.9,nesterov,weight-decay=5e-4", ["--schedule", "step:every=2,gamma=0.5"], 3),
    Case("mlp:16-12-5,activation=gelu", "cross-entropy", "adam:lr=1e-2,weight-decay=0.1", ["--schedule", "cosine:warmup=2,min=1e-4"], 4),
    Case("mlp:16-9-5,activation=gelu-tanh", "cross-entropy", "adamw:lr=3e-3", ["--clip-norm", "0.5"], 2),
    Case("mlp:16-12-5", "cross-entropy", "adamw:lr=1e-2", ["--schedule", "cosine:warmup=2", "--group", "rank<2:weight-decay=0", "--group", "2.*:lr=0.3x"], 3),
    Case("mlp:16-12-5", "cross-entropy", "sgd:lr=0.1,momentum=0.9,weight-decay=1e-2", ["--group", "2.*:lr=0.1x,weight-decay=0.5", "--freeze", "0.weight"], 3),
    Case("mlp:16-300-5,activation=tanh", "cross-entropy", "sgd:lr=0.05", ["--schedule", "linear:warmup=1"], 2),
    Case("mlp:16-7-6-5,activation=sigmoid", "cross-entropy", "adam:lr=1e-3,betas=0.8/0.99,eps=1e-6", ["--clip-norm", "2"], 2),
]
DECODERS = [
    Case("gpt:layers=1,width=8,heads=2,vocab=64", "cross-entropy", "adamw:lr=1e-2", ["--clip-norm", "1"], 3),
    Case("gpt:layers=1,width=8,heads=2,vocab=64,tied,dropout=0.25", "cross-entropy:label-smoothing=0.1,ignore=40",
         "sgd:lr=0.5,momentum=0.9", [], 2),
]
QUICKSTART = Case("mlp:784-256-128-10", "cross-entropy", "sgd:lr=0.1,momentum=0.9", ["--schedule", "cosine:warmup=100,min=0"], 1, 128, 102)
# TorchScript files of tests/support/make_torchscript.cc; they bring their own initial weights.
SCRIPTED = ["gelu.pt", "gelu_tanh.pt", "tanh.pt", "sigmoid.pt", "scaled.pt"]


def small_data(bench):
    numbers = np.random.default_rng(7)
    np.save(bench.path("x.npy"), numbers.normal(size=(50, 16)).astype(np.float32))
    np.save(bench.path("y.npy"), numbers.integers(0, 5, 50).astype(np.uint8))
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "small.h5")


def small_text(bench):
    with open(bench.path("text.txt"), "w") as file:
        file.write("".join(chr(32 + (7 * n * n + n) % 31) for n in range(260)))
    bench.run("dgx-pack", "text", "text.txt", "--context", "5", "-o", "text.h5")


def check_small(bench, _):
    small_data(bench)
    for number, case in enumerate(SMALL):
        check_training(bench, f"task{number}", "small.h5", case)
    small_text(bench)
    for number, case in enumerate(DECODERS):
        check_training(bench, f"decoder{number}", "text.h5", case)
    return len(SMALL) + len(DECODERS)


def pack_images(bench):
    bench.run("dgx-pack", "idx", "--images", needs.fashion_mnist("train-images"), "--labels", needs.fashion_mnist("train-labels"), "--scale",
              "0.00392156862745098", "--first", "1000", "-o", "images.h5")


def check_quickstart(bench, _):
    pack_images(bench)
    check_training(bench, "quickstart", "images.h5", QUICKSTART)
    return 1


def check_scripted(bench, models):
    pack_images(bench)
    for file in SCRIPTED:
        check_training(bench, file[:-3], "images.h5", Case(os.path.join(models, file), "cross-entropy", "adamw:lr=1e-3", [], 1))
    return len(SCRIPTED)


PARTS = {"small": check_small, "quickstart": check_quickstart, "scripted": check_scripted}


def main():
    parser = support.parser()
    parser.add_argument("--part", choices=PARTS, default="small")
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "submitter")
        needs.counted(PARTS[options.part](bench, os.path.abspath(options.models)), 0)


main()
