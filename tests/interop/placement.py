"""Step programs that dgx-submit writes for models of every kind, classed as dgx-placement(7) says: placement.py --bin FOLDER --plugins FOLDER

Each must have as many lines of every class, and as many gathers, as the one that is stored in tests/vectors/placement, of which unit/program knows
every class and local program. --accept stores the programs anew. Exits 77 without NumPy, h5py and Debian's python3-torch.
"""

import pathlib
import shutil
import sys

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors"
sys.path.insert(0, str(VECTORS))
import placement  # noqa: E402


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.head = nn.Linear(6 * 4 * 4, 5)

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))).flatten(1))


class Counting(nn.Module):
    """Embeddings, and sums over the tokens so far."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(128, 6)
        self.head = nn.Linear(6, 128)

    def forward(self, x):
        return self.head(torch.cumsum(torch.tanh(self.table(x)), 1))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Linear(12, 5)

    def forward(self, x):
        return self.down(torch.relu(self.norm(self.up(x.flatten(1)))))


class TimeMajorRecurrence(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(8, 6), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(self.cells(x.squeeze(1).transpose(0, 1))[0][-1])


class TimeMajorEncoder(nn.Module):
    """A layer of a transformer as torch has it, time first, heads beside the samples."""

    def __init__(self):
        super().__init__()
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(8, 5)

    def forward(self, x):
        x = x.squeeze(1).transpose(0, 1)
        time, batch = x.shape[0], x.shape[1]
        q, k, v = self.project(x).view(time, batch * 2, 12).transpose(0, 1).chunk(3, 2)
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 2, -1)
        x = self.first(x + self.drop(self.out(torch.bmm(weights, v).transpose(0, 1).reshape(time, batch, 8))))
        x = self.second(x + self.drop(self.down(torch.relu(self.up(x)))))
        return self.head(x.mean(0))


# By name: the model, its dataset, loss and optimiser, more options, and the batch.
BUILT_IN = {
    "regression": ("mlp:64-12-5", "pairs", "mse", "sgd:lr=0.1", [], 12),
    "clipped": ("mlp:64-16-5,activation=gelu", "images", "cross-entropy:label-smoothing=0.1,ignore=2", "adamw:lr=1e-2", ["--clip-norm", "1"], 10),
    "gpt": ("gpt:layers=2,width=16,heads=2,vocab=128,dropout=0.1", "text", "cross-entropy", "adamw:lr=1e-2", ["--clip-norm", "1"], 6),
    "switch": ("switch:layers=2,width=16,heads=2,vocab=128,experts=3,capacity=0.8,dropout=0.1", "text", "cross-entropy", "adamw:lr=1e-2", ["--clip-norm", "1"], 6),
    "cut": ("mlp:64-12-5", "pairs", "mse", "sgd:lr=0.1", ["--cut", "1:forward=2,backward=8,first=4"], 12),
    "cut-gpt": ("gpt:layers=2,width=16,heads=2,vocab=128,dropout=0.1", "text", "cross-entropy", "adamw:lr=1e-2", ["--cut", "1:forward=3,backward=4,first=2"], 6),
    "resnet20": ("resnet20", "pictures", "cross-entropy", "sgd:lr=0.1,momentum=0.9", [], 5),
}
SCRIPTED = {
    "convolutions": (Convolutions, "images", "cross-entropy", "sgd:lr=0.1,momentum=0.9", [], 7),
    "counting": (Counting, "text", "cross-entropy", "adam:lr=1e-2", ["--input", "i64"], 6),
    "normed": (Normed, "images", "cross-entropy", "adam:lr=1e-2", [], 9),
    "recurrence": (TimeMajorRecurrence, "images", "cross-entropy", "adam:lr=1e-2", [], 6),
    "encoder": (TimeMajorEncoder, "images", "cross-entropy", "adamw:lr=1e-2", [], 6),
}


def pack(bench):
    numbers = np.random.default_rng(3)
    np.save(bench.path("x.npy"), numbers.normal(size=(40, 1, 8, 8)).astype(np.float32))
    np.save(bench.path("p.npy"), numbers.integers(0, 256, (40, 1, 16, 16)).astype(np.uint8))
    np.save(bench.path("y.npy"), numbers.integers(0, 5, 40).astype(np.uint8))
    np.save(bench.path("t.npy"), numbers.normal(size=(40, 5)).astype(np.float32))
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "-o", "images.h5")
    bench.run("dgx-pack", "npy", "--x", "p.npy", "--y", "y.npy", "-o", "pictures.h5")
    bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "t.npy", "-o", "pairs.h5")
    pathlib.Path(bench.path("text")).write_bytes(bytes(numbers.integers(32, 127, 200).astype(np.uint8)))
    bench.run("dgx-pack", "text", "text", "--context", "8", "-o", "text.h5")


def submit(bench, name, case, steps=10, seed=1):
    model, data, loss, optimizer, more, batch = case
    if not isinstance(model, str):
        torch.manual_seed(1)
        torch.jit.script(model()).save(bench.path(f"{name}.pt"))
        model = f"{name}.pt"
    bench.run("dgx-submit", "--data", f"{data}.h5", "--model", model, "--loss", loss, "--optimizer", optimizer, *more, "--batch", str(batch), "--steps", str(steps),
              "--seed", str(seed), "--key", "submitter.pem", "-o", f"{name}.json")
    return pathlib.Path(bench.path(f"{name}.program.jsonl"))


def main():
    parser = support.parser()
    parser.add_argument("--accept", action="store_true", help="store the programs")
    options = support.parsed(parser)
    stored = VECTORS / "placement"
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "submitter")
        pack(bench)
        for name, case in {**BUILT_IN, **SCRIPTED}.items():
            made = submit(bench, name, case)
            if options.accept:
                shutil.copy(made, stored)
            fresh, kept = (placement.described(path, None)[1] for path in (made, stored / made.name))
            bench.check(fresh == kept, f"{name}: {fresh}, stored {kept}")
    print(f"{len(BUILT_IN) + len(SCRIPTED)} programs are classed as the stored ones")


if __name__ == "__main__":
    main()
