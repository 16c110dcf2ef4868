"""Disputes at random places of the programs of seventeen models: drilled_disputes.py --bin FOLDER --player FILE [--models KIND] [--disputes N] [--seed S]

A perceptron, ResNet-20, a decoder with dropout, one with experts, nine perceptrons with other losses, optimisers, schedules, updates and a cut, a decoder with one, and three TorchScript models (two of
tests/models, with a scan and with an argmin, and one with a loss of its own); play_disputes.cc says what is played. --models built-in: the first fourteen;
scripted: the last three. Exits 77 without NumPy, and without Debian's python3-torch where
models are scripted.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("models", "support")]
import needs  # noqa: E402

needs.modules("numpy")
import numpy as np  # noqa: E402

STEPS = ["--steps", "6", "--checkpoint-every", "3", "--seed", "7"]
BUILT_IN = {
    "mlp": ("vectors", ["--model", "mlp:20-33-7,activation=gelu", "--loss", "cross-entropy:label-smoothing=0.1", "--optimizer", "adamw:lr=1e-2", "--schedule",
                        "cosine:warmup=2,min=1e-4", "--group", "rank<2:weight-decay=0", "--group", "2.*:lr=0.3x", "--batch", "8"]),
    "resnet20": ("images", ["--model", "resnet20:classes=4", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9,weight-decay=5e-4", "--batch", "2"]),
    "gpt": ("tokens", ["--model", "gpt:layers=2,width=16,heads=2,context=8,vocab=64,dropout=0.1,tied", "--loss", "cross-entropy:ignore=5", "--optimizer",
                       "adamw:lr=1e-2", "--clip-norm", "1", "--batch", "4"]),
    "switch": ("tokens", ["--model", "switch:layers=1,width=8,heads=2,context=8,vocab=64,experts=3,capacity=0.8,balance=0.5,every=1", "--loss", "cross-entropy",
                          "--optimizer", "adamw:lr=1e-2", "--batch", "4"]),
    "labels": ("labels", ["--model", "mlp:20-9-3", "--loss", "bce:pos-weights=0.5/2/3", "--optimizer", "rmsprop:centered,momentum=0.9", "--schedule",
                          "wsd:warmup=1,decay=2,min=1e-4", "--batch", "4"]),
    "robust": ("numbers", ["--model", "mlp:20-9-3", "--loss", "huber:delta=0.5", "--optimizer", "lion:lr=1e-2,weight-decay=0.1", "--schedule",
                           "one-cycle:up=0.5", "--batch", "4"]),
    "plateau": ("numbers", ["--model", "mlp:20-9-3", "--loss", "huber", "--optimizer", "lion:lr=1e-2,weight-decay=0.1", "--schedule",
                            "plateau:every=1,patience=0,threshold=0.9,factor=0.5,warmup=1", "--batch", "4"]),
    "accumulated": ("numbers", ["--model", "mlp:20-9-3", "--loss", "mse", "--optimizer", "adamw:lr=1e-2", "--schedule", "cosine:cycles=2", "--accumulate", "3",
                                "--ema", "0.9", "--clip-norm", "0.1", "--group", "rank<2:weight-decay=0", "--batch", "4"]),
    "workers": ("vectors", ["--model", "mlp:20-9-7", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--workers", "2", "--batch", "4"]),
    "compressed": ("vectors", ["--model", "mlp:20-9-7", "--loss", "cross-entropy", "--optimizer", "dgc:lr=0.1,density=0.05,warmup=3,clip=0.5,bits=8", "--workers", "2",
                               "--batch", "4"]),
    "cut": ("vectors", ["--model", "mlp:20-9-7", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--cut", "1:forward=2,backward=3,first=3",
                        "--batch", "4"]),
    "cut-gpt": ("tokens", ["--model", "gpt:layers=2,width=8,heads=2,context=8,vocab=64", "--loss", "cross-entropy", "--optimizer", "adamw:lr=1e-2", "--workers", "2",
                           "--cut", "1:first=0", "--batch", "4"]),
    "frozen": ("numbers", ["--model", "mlp:20-9-3", "--loss", "huber", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--schedule", "inverse-sqrt:warmup=2", "--freeze",
                           "0.*", "--ema", "0.5", "--batch", "4"]),
    "absolute": ("numbers", ["--model", "mlp:20-9-3", "--loss", "l1", "--optimizer", "adagrad:lr-decay=0.1,initial=0.1", "--schedule",
                             "polynomial:power=1.5,warmup=1", "--batch", "4"]),
}


def run(bin_folder, folder, *words):
    done = subprocess.run([os.path.join(bin_folder, words[0]), *words[1:]], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(words)}: exit {done.returncode}: {done.stderr}")


def pack_all(bin_folder, folder):
    chance = np.random.default_rng(5)
    tokens = chance.integers(0, 64, (30, 9)).astype("u1")
    data = {
        "vectors": (chance.normal(size=(30, 20)).astype("f4"), chance.integers(0, 7, 30)),
        "labels": (chance.normal(size=(30, 20)).astype("f4"), chance.integers(0, 2, (30, 3)).astype("u1")),
        "numbers": (chance.normal(size=(30, 20)).astype("f4"), chance.normal(size=(30, 3)).astype("f4")),
        "images": (chance.integers(0, 256, (30, 3, 16, 16)).astype("u1"), chance.integers(0, 4, 30).astype("u1")),
        "tokens": (tokens[:, :8], tokens[:, 1:]),
        "text": (chance.integers(1, 128, (30, 24)).astype("u1"), chance.integers(1, 128, (30, 24)).astype("u1")),
        "pictures": (chance.random((30, 28, 28)).astype("f4"), chance.random((30, 28, 28)).astype("f4")),
    }
    for name, (x, y) in data.items():
        np.save(os.path.join(folder, "x.npy"), x)
        np.save(os.path.join(folder, "y.npy"), y)
        scale = ["--scale", "0.00392156862745098", "--shift", "-0.5"] if name == "images" else []
        run(bin_folder, folder, "dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", *scale, "-o", f"{name}.h5")


def scripted(folder):
    """TorchScript models and how they are submitted."""
    import torch
    from alibi import Alibi
    from codebook import Quantised
    torch.manual_seed(1)
    torch.set_num_threads(1)

    class OwnLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(20, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (self.layer(x) - y).abs().mean()

    found = {}
    for name, model, data, words in (("own-loss", OwnLoss, "numbers", ["--loss", "output", "--optimizer", "adamw:lr=1e-2", "--accumulate", "2", "--ema", "0.9"]),
                                     ("alibi", Alibi, "text", ["--input", "i64", "--loss", "cross-entropy", "--optimizer", "adamw:lr=1e-2"]),
                                     ("quantised", Quantised, "pictures", ["--loss", "mse", "--optimizer", "adam:lr=1e-2"])):
        torch.jit.script(model()).save(os.path.join(folder, f"{name}.pt"))
        found[name] = (data, ["--model", f"{name}.pt", *words, "--batch", "2"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--player", required=True)
    parser.add_argument("--models", choices=("all", "built-in", "scripted"), default="all")
    parser.add_argument("--disputes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bin_folder = os.path.abspath(options.bin)
    if options.models != "built-in":
        needs.modules("h5py", "torch")
    with tempfile.TemporaryDirectory(prefix="dgx-disputes-") as folder:
        run(bin_folder, folder, "dgx-key", "new", "key")
        pack_all(bin_folder, folder)
        words = []
        models = {**(BUILT_IN if options.models != "scripted" else {}), **(scripted(folder) if options.models != "built-in" else {})}
        for name, (data, submit) in models.items():
            run(bin_folder, folder, "dgx-submit", "--data", f"{data}.h5", *submit, *STEPS, "--key", "key.pem", "-o", f"{name}.json")
            words += [f"{name}.json", f"{data}.h5"]
        player = [os.path.abspath(options.player), str(options.disputes), str(options.seed), *words]
        return subprocess.run(player, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
