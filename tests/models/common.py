"""What every model here goes through, by `MODEL.py --bin FOLDER`: scripted, submitted, trained.

- The first step's gradients are libtorch's in binary64, within 1e-4 of each tensor's largest; where libtorch's own in binary32 are not that near either,
  since large terms cancel, within twice its error, or 16 times if that is within 1e-4 of the network's largest.
- Training gives one state digest with every instruction set of the processor and with one and two threads, and the loss falls.
- For each kind of primitive in the program, a flipped bit in up to five of its values is found again by `dgx-bisect diff`; those that change no
  committed state are printed, and must have left every digest.

Exits 77 without Debian's python3-torch, and where images are learnt without Fashion-MNIST.
"""

import argparse
import copy
import enum
import gzip
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

needs.modules("h5py", "numpy", "torch")
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

ISAS = ("scalar", "avx2", "avx512", "neon")
TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")
CONTEXT = 24


class Data(enum.Enum):
    IMAGES = "images and their classes"
    IMAGES_TO_THEMSELVES = "images as input and target"
    TEXT = "bytes of a text and the bytes that follow"


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Attention(nn.Module):
    """Self-attention by its definition."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, positions, width = x.shape
        shape = [batch, positions, 3, self.heads, width // self.heads]
        q, k, v = self.project(x).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(width // self.heads), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, positions, width))


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


class Bench:
    """A folder, the programs, and one model's data in it."""

    def __init__(self, bin_folder, folder):
        self.bin = pathlib.Path(bin_folder).resolve()
        self.folder = folder

    def run(self, *words, codes=(0,)):
        environment = dict(os.environ, NO_COLOR="1")
        command = [self.bin / words[0], *map(str, words[1:])]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        check(done.returncode in codes, f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def json(self, *words, codes=(0,)):
        return json.loads(self.run(*words, "--json", "-q", codes=codes).stdout.splitlines()[-1])

    def path(self, name):
        return os.path.join(self.folder, name)

    def pack(self, data, samples):
        """Writes data.h5; returns x as the model takes it, and y."""
        if data is Data.TEXT:
            self.run("dgx-pack", "text", TEXT, "--context", CONTEXT, "--first", samples, "-o", "data.h5")
        else:
            x, y = images(samples)
            np.save(self.path("x.npy"), x if data is Data.IMAGES else x.astype("f4") / np.float32(255))
            np.save(self.path("y.npy"), y if data is Data.IMAGES else x.astype("f4") / np.float32(255))
            scale = ["--scale", 1 / 255] if data is Data.IMAGES else []
            self.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", *scale, "-o", "data.h5")
        with h5py.File(self.path("data.h5"), "r") as file:
            x, y = torch.from_numpy(file["x"][()]), torch.from_numpy(file["y"][()])
        if data is Data.IMAGES:
            x = x.float() * float(np.float32(1 / 255))
        return (x.long() if data is Data.TEXT else x), (y if data is Data.IMAGES_TO_THEMSELVES else y.long())

    def submit(self, name, data, optimizer, batch, steps, interval, *options):
        loss = "mse" if data is Data.IMAGES_TO_THEMSELVES else "cross-entropy"
        tokens = ["--input", "i64"] if data is Data.TEXT else []
        self.run("dgx-submit", "--data", "data.h5", "--model", "model.pt", *tokens, "--loss", loss, "--optimizer", optimizer, "--batch", batch, "--steps", steps,
                 "--seed", 7, "--checkpoint-every", interval, "--key", "key.pem", "-o", f"{name}.json", *options)

    def train(self, task, run, *options, threads=1, codes=(0,)):
        return self.run("dgx-train", f"{task}.json", "--data", "data.h5", "-o", run, "--threads", threads, "--json", *options, codes=codes)


def images(samples):
    arrays = []
    for kind, header in (("train-images", 16), ("train-labels", 8)):
        with gzip.open(needs.fashion_mnist(kind)) as file:
            arrays.append(np.frombuffer(file.read(), "u1")[header:])
    return arrays[0].reshape(-1, 28, 28)[:samples], arrays[1][:samples]


def check_gradients(bench, model, data, x, y):
    """One step of gradient descent over all samples: old - new is the gradient. A second step, the least a task has, moves nothing."""
    rate = 8.0
    bench.submit("gradient", data, f"sgd:lr={rate:g}", len(x), 2, 2, "--schedule", "step:every=1,gamma=1e-12")
    bench.train("gradient", "gradient.run")
    bench.run("dgx-inspect", "export", "gradient.run", "-o", "gradient.npz")
    after = np.load(bench.path("gradient.npz"))
    # Of copies: a model may change its own buffers as it is called.
    theirs, exact = gradients(copy.deepcopy(model), data, x, y), gradients(copy.deepcopy(model).double(), data, x.double() if x.is_floating_point() else x, y)
    largest = max(np.abs(gradient).max() for gradient in exact.values())
    for name, parameter in model.named_parameters():
        before = parameter.detach().numpy().astype("f8")
        mine = (before - after[name].astype("f8")) / rate
        own, off = np.abs(exact[name]).max(), np.abs(mine - exact[name])
        # The difference of two binary32 numbers is all that is seen of a gradient.
        allowed = max(1e-4 * own, np.abs(before).max() * 2.0**-24 / rate)
        # Before a norm large terms cancel (of a bias all of them): what is left is as wrong as libtorch's own, in the same binary32.
        own_error = np.abs(theirs[name] - exact[name]).max()
        allowed = max(allowed, 2 * own_error, min(16 * own_error, 1e-4 * largest))
        if off.max() > allowed:
            check_slopes(model, data, x, y, name, mine, off > allowed)


def check_slopes(model, data, x, y, name, mine, beyond):
    """libtorch 1.13 gives wrong gradients of some norms (of a transposed view), in binary64 too: then the loss itself decides, at 32 of the elements."""
    places = np.argwhere(beyond)
    for at in map(tuple, places[np.unique(np.linspace(0, len(places) - 1, 32).astype(int))]):
        low, high = sorted(one_sided_slopes(model, data, x, y, name, at))
        near = 1e-4 * np.abs(mine).max()
        check(low - near <= mine[at] <= high + near, f"gradient of {name}{list(at)}: {mine[at]:.6g}, and the loss rises by {low:.6g} to {high:.6g}")
    print(f"{name}: {len(places)} gradients are not libtorch's, and how the loss rises")


def one_sided_slopes(model, data, x, y, name, at, step=1e-6):
    """How the loss rises to either side of one element of a parameter, in binary64: two slopes where an activation is at its kink."""
    losses = []
    for move in (-step, 0, step):
        moved = copy.deepcopy(model).double()
        with torch.no_grad():
            dict(moved.named_parameters())[name][at] += move
            losses.append(float(loss_of(moved, data, x.double() if x.is_floating_point() else x, y)))
    return (losses[1] - losses[0]) / step, (losses[2] - losses[1]) / step


def loss_of(model, data, x, y):
    model.train()
    output = model(x)
    return F.mse_loss(output, y.to(output.dtype)) if data is Data.IMAGES_TO_THEMSELVES else F.cross_entropy(output.flatten(0, -2), y.flatten())


def gradients(model, data, x, y):
    found = torch.autograd.grad(loss_of(model, data, x, y), list(model.parameters()))
    return {name: gradient.numpy().astype("f8") for (name, _), gradient in zip(model.named_parameters(), found)}


def check_training(bench, data, optimizer, batch, steps, falls=True):
    bench.submit("task", data, optimizer, batch, steps, steps)
    digests, isas = {}, []
    for isa in ISAS:
        if bench.train("task", f"probe-{isa}", "--isa", isa, "--until", 1, codes=(0, 2)).returncode == 0:
            isas.append(isa)
    for isa in isas:
        for threads in (1, 2) if isa == isas[-1] else (1,):
            done = bench.train("task", f"run-{isa}-{threads}", "--isa", isa, threads=threads)
            digests[json.loads(done.stdout.splitlines()[-1])["state"]] = (isa, threads)
    check(len(digests) == 1, f"different states: {digests}")
    losses = losses_of(bench, f"run-{isas[-1]}-1")
    tenth = max(1, steps // 10)
    first, last = sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth
    check(not falls or last < first, f"the loss does not fall: {first} to {last}")
    return first, last


def losses_of(bench, run):
    with h5py.File(next(iter(sorted(pathlib.Path(bench.path(run)).glob("index*.h5")))), "r") as file:
        return [float(x) for x in file["losses"][()]]


def check_drills(bench, data, optimizer, batch):
    """A fault in values of each kind: the same value, element and scalar operation come back of each that changes a committed state."""
    bench.submit("drill", data, optimizer, batch, 4, 2)
    bench.train("drill", "honest.run")
    with open(bench.path("drill.program.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    found = []
    for kind in ("map", "dot", "sum", "max", "argmax", "chain"):
        of_kind = [line for line in lines if line["k"] == kind and math.prod(line["s"]) > 0]
        if of_kind:
            counts = [drill(bench, line) for line in chosen(of_kind)]
            check(any(counts), f"no fault in a value of kind {kind} changed a state")
            found.append(f"{sum(counts)} {kind}")
    return found


def chosen(lines):
    """The first, the middle, the last, and those between."""
    return [lines[place] for place in sorted({round(part * (len(lines) - 1) / 4) for part in range(5)})]


def drill(bench, line):
    """Whether a fault in one of some elements of this value changed a state: it must be found. One that changed none must have left every digest."""
    size = math.prod(line["s"])
    # Of an embedding's gradient, one element in eight is of the space character.
    elements = list(dict.fromkeys((size // 2, size // 8, 0, size - 1)))
    for element in elements:
        bit = 22 if line["t"] == "f32" else 0
        shutil.rmtree(bench.path("drilled.run"), ignore_errors=True)
        done = bench.train("drill", "drilled.run", "--drill", f"step=2,op={line['v']},element={element},bit={bit}", codes=(0, 1, 3))
        if done.returncode == 0:
            check_found(bench, line, element, bit)
            return True
        if done.returncode == 1:
            check("not finite" in done.stderr, done.stderr)
        else:
            check(digests_of(bench, "drilled.run") == digests_of(bench, "honest.run"), f"value {line['v']}, element {element}: exit 3, and another state")
    print(f"value {line['v']} ({line['k']}): a fault in element {elements} is rounded or masked away, or ends the run: no digest but the honest ones")
    return False


def check_found(bench, line, element, bit):
    told = bench.json("dgx-bisect", "diff", "drill.json", "honest.run", "drilled.run", "--data", "data.h5", "--threads", 1, codes=(1,))
    at = (told["step"], told["value"]["number"], told["element"])
    check(at == (2, line["v"], element), f"a fault in value {line['v']} ({line['k']}), element {element}: found at {at}")
    scalar = told["scalar"]
    check(scalar["ours_hex"] == scalar["result_hex"], f"value {line['v']}: recomputing gives {scalar['result_hex']}, the honest run has {scalar['ours_hex']}")
    flipped = int(scalar["ours_hex"], 16) ^ int(scalar["theirs_hex"], 16)
    check(flipped == 1 << bit, f"value {line['v']}: bits {flipped:#x} of {scalar['operation']} differ, one was flipped")


def digests_of(bench, run):
    with h5py.File(bench.path(f"{run}/index.h5"), "r") as file:
        return [bytes(row) for row in file["digests"][()]]


def run(model_class, data, optimizer, samples=16, batch=8, steps=40):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = model_class()
    with tempfile.TemporaryDirectory(prefix="dgx-model-") as folder:
        bench = Bench(options.bin, folder)
        torch.jit.script(model).save(bench.path("model.pt"))
        bench.run("dgx-key", "new", "key")
        try:
            x, y = bench.pack(data, samples)
            check_gradients(bench, model, data, x, y)
            first, last = check_training(bench, data, optimizer, batch, steps)
            kinds = check_drills(bench, data, optimizer, batch)
        except Failure as failure:
            print(f"FAILED: {failure}")
            sys.exit(1)
    print(f"{model_class.__name__}: {sum(p.numel() for p in model.parameters())} parameters, loss {first:.4f} to {last:.4f}, faults found in {', '.join(kinds)}")
