"""Models of every kind, trained three steps by the second implementation: numpy_training.py --bin FOLDER --plugins FOLDER [--models FOLDER]

Perceptrons, ResNet-20, a small convolutional network from TorchScript, and decoders, some with experts; tasks.py says what is compared. --only NAME
takes one of them. Exits 77 without NumPy, h5py and cryptography.
"""

import os
import sys
import time

try:
    import cryptography  # noqa: F401
    import h5py  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support
from tasks import Case, check_training

COSINE = ["--schedule", "cosine:warmup=2,min=1e-4"]
# By name: the data, and the case. A name with .pt is a file of tests/support/make_torchscript.cc.
CASES = {
    "mlp": ("vectors", Case("mlp:20-33-7,activation=gelu", "cross-entropy:label-smoothing=0.1", "adamw:lr=1e-2", COSINE)),
    "regression": ("targets", Case("mlp:20-33-3,activation=tanh", "mse", "sgd:lr=0.05,momentum=0.9,nesterov", ["--clip-norm", "1"])),
    "resnet20": ("images", Case("resnet20:classes=4", "cross-entropy", "sgd:lr=0.1,momentum=0.9,weight-decay=5e-4", COSINE, batch=2)),
    "cnn.pt": ("digits", Case("cnn.pt", "cross-entropy", "adam:lr=1e-2", [], batch=4)),
    "compressed": ("images", Case("resnet20:classes=4", "cross-entropy", "dgc:lr=0.1,density=0.01,warmup=2,bits=8,clip=1", ["--workers", "2"], batch=2)),
    "cut": ("vectors", Case("mlp:20-33-9-7,activation=gelu", "cross-entropy", "adamw:lr=1e-2", ["--cut", "2:forward=2,backward=3,first=1"])),
    "cut-accumulated": ("targets", Case("mlp:20-33-3", "mse", "sgd:lr=0.05,momentum=0.9", ["--cut", "1:forward=3,backward=5,first=0", "--accumulate", "3", "--ema", "0.9"],
                                        compared=6, batch=12)),
    "cut-gpt": ("tokens", Case("gpt:layers=2,width=16,heads=2,context=8,vocab=64,dropout=0.1,tied", "cross-entropy", "adamw:lr=1e-2",
                               ["--clip-norm", "1", "--workers", "4", "--cut", "1:first=2"])),
    "cut-switch": ("tokens", Case("switch:layers=2,width=8,heads=2,context=8,vocab=64,experts=2,balance=0.5,every=1", "cross-entropy", "dgc:lr=0.1,density=0.1,warmup=2",
                                  ["--workers", "2", "--cut", "1:forward=8,backward=2,first=1"])),
    "gpt": ("tokens", Case("gpt:layers=1,width=16,heads=2,context=8,vocab=64", "cross-entropy", "adamw:lr=1e-2,betas=0.9/0.95", COSINE)),
    "gpt-dropout": ("tokens", Case("gpt:layers=1,width=16,heads=2,context=8,vocab=64,dropout=0.1,tied", "cross-entropy:ignore=5",
                                   "adamw:lr=1e-2", ["--clip-norm", "1"])),
    "switch": ("tokens", Case("switch:layers=2,width=16,heads=2,context=8,vocab=64,experts=3,capacity=0.9,dropout=0.1", "cross-entropy",
                              "adamw:lr=1e-2", ["--clip-norm", "1"])),
    "switch-workers": ("tokens", Case("switch:layers=1,width=8,heads=2,context=8,vocab=64,experts=2,balance=0.5,every=1", "cross-entropy", "sgd:lr=0.1,momentum=0.9",
                                      ["--workers", "4"])),
}


def pack(bench, name, x, y):
    np.save(bench.path(f"{name}.x.npy"), x)
    np.save(bench.path(f"{name}.y.npy"), y)
    scale = ["--scale", "0.00392156862745098", "--shift", "-0.5"] if x.dtype == np.uint8 and x.ndim > 2 else []
    bench.run("dgx-pack", "npy", "--x", f"{name}.x.npy", "--y", f"{name}.y.npy", *scale, "-o", f"{name}.h5")


def pack_all(bench):
    chance = np.random.default_rng(5)
    classes = chance.integers(0, 4, 30).astype(np.uint8)
    pack(bench, "vectors", chance.normal(size=(30, 20)).astype(np.float32), chance.integers(0, 7, 30))
    pack(bench, "targets", chance.normal(size=(30, 20)).astype(np.float32), chance.normal(size=(30, 3)).astype(np.float32))
    pack(bench, "images", chance.integers(0, 256, (30, 3, 16, 16)).astype(np.uint8), classes)
    pack(bench, "digits", chance.integers(0, 256, (30, 1, 28, 28)).astype(np.uint8), classes)
    tokens = chance.integers(0, 64, (30, 9)).astype(np.uint8)
    pack(bench, "tokens", tokens[:, :8], tokens[:, 1:])


def main():
    parser = support.parser()
    parser.add_argument("--only", choices=CASES, action="append")
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "submitter")
        pack_all(bench)
        for name in options.only or CASES:
            data, case = CASES[name]
            if name.endswith(".pt"):
                case.model = os.path.abspath(os.path.join(options.models or "", name))
            start = time.time()
            check_training(bench, name, f"{data}.h5", case)
            print(f"{name}: {case.compared} steps, {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
