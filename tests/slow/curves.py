"""Learning curves of the built-in models, exact and eager: curves.py --bin FOLDER --folder FOLDER [NAME ...]

Each model is submitted and trained by the programs, and again by eager PyTorch from the same initial state, on the same batches in the
same order, with the same optimiser and schedule. Prints a table, writes curves.svg. Fails where an accuracy is not reached or a final
loss is further away than roundings lead: more than 1 % of GPT's and of that with experts, 10 % of the others'.
"""

import argparse
import dataclasses
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # PyTorch has threads of its own

import h5py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from fashion import Folder

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "interop"), str(TESTS / "support")]
from spec import inputs  # noqa: E402
from svg import Picture  # noqa: E402


class Perceptron(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.layers(x.flatten(1))

    def name(self, entry):
        return "layers." + entry


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self, channels=1, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x.unsqueeze(1))))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))

    def name(self, entry):
        return entry


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, positions, width = x.shape
        q, k, v = (part.view(batch, positions, self.heads, -1).transpose(1, 2) for part in self.attn["c_attn"](self.ln_1(x)).split(width, 2))
        later = torch.ones(positions, positions).triu(1).bool()
        weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf).softmax(3)
        x = x + self.attn["c_proj"]((weights @ v).transpose(1, 2).reshape(batch, positions, width))
        return x + self.perceive(self.ln_2(x))

    def perceive(self, x):
        return self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](x), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocab=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h = nn.ModuleList([GptBlock(width, heads) for _ in range(layers)])
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))

    def name(self, entry):
        return entry


class Experts(nn.Module):
    """One expert a token, by dense sums over all experts; `unevenness` is the balance loss of the last pass."""

    def __init__(self, width, experts, capacity):
        super().__init__()
        self.capacity, self.unevenness = capacity, 0
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}) for _ in range(experts)])

    def forward(self, x):
        length, experts = x.shape[1], len(self.experts)
        chances = self.router(x).softmax(2)
        mine = F.one_hot(chances.argmax(2), experts)
        kept = mine * (mine.cumsum(1) <= min(length, math.ceil(length * self.capacity / experts)))
        self.unevenness = experts * (mine.float().mean(1) * chances.mean(1)).sum(1).mean()
        y = torch.zeros_like(x)
        for n, expert in enumerate(self.experts):
            where = kept[..., n].bool()
            y[where] = expert["c_proj"](F.gelu(expert["c_fc"](x[where]), approximate="tanh")) * chances[where][:, n:n + 1]
        return y


class SwitchBlock(GptBlock):
    def __init__(self, width, heads, experts, capacity):
        super().__init__(width, heads)
        self.mlp = Experts(width, experts, capacity)

    def perceive(self, x):
        return self.mlp(x)


class Switch(Gpt):
    """Every second block has experts."""

    def __init__(self, layers, width, heads, context, experts, capacity=1.25, balance=0.01):
        super().__init__(layers, width, heads, context)
        self.balance = balance
        for n in range(1, layers, 2):
            self.h[n] = SwitchBlock(width, heads, experts, capacity)

    def penalty(self):
        return self.balance * sum(block.mlp.unevenness for block in self.h if isinstance(block, SwitchBlock))


@dataclasses.dataclass
class Subject:
    name: str
    title: str
    spec: str
    network: object
    data: str
    options: list
    accuracy: float = 0  # to reach on the test data
    window: int = 20     # steps that a point of the curve is the mean of


SUBJECTS = [
    Subject("mlp", "MLP 784-256-128-10, Fashion-MNIST", "mlp:784-256-128-10", lambda: Perceptron(784, 256, 128, 10), "fashion",
            ["--optimizer", "sgd:lr=0.1,momentum=0.9", "--schedule", "cosine:warmup=100,min=0", "--batch", "128", "--epochs", "10", "--seed", "1", "--checkpoint-every", "200"],
            accuracy=0.88, window=50),
    Subject("resnet20", "ResNet-20, Fashion-MNIST", "resnet20", ResNet20, "fashion",
            ["--optimizer", "sgd:lr=0.1,momentum=0.9,weight-decay=1e-4", "--schedule", "cosine:warmup=200,min=0", "--batch", "128", "--epochs", "5",
             "--seed", "1", "--checkpoint-every", "117"], accuracy=0.91, window=25),
    Subject("gpt", "GPT, 4 layers of 128, King James Bible", "gpt:layers=4,width=128,heads=4,context=128", lambda: Gpt(4, 128, 4, 128), "text",
            ["--optimizer", "adamw:lr=1e-3,betas=0.9/0.95,weight-decay=0.1", "--schedule", "cosine:warmup=50,min=1e-4", "--batch", "16",
             "--steps", "1200", "--seed", "3", "--checkpoint-every", "100"]),
    Subject("switch", "GPT with 8 experts in every second block, King James Bible", "switch:layers=4,width=128,heads=4,context=128,experts=8",
            lambda: Switch(4, 128, 4, 128, 8), "text",
            ["--optimizer", "adamw:lr=1e-3,betas=0.9/0.95,weight-decay=0.1", "--schedule", "cosine:warmup=50,min=1e-4", "--batch", "16",
             "--steps", "1200", "--seed", "3", "--checkpoint-every", "100"]),
]


class Bench(Folder):
    def __init__(self, bin_folder, folder, threads):
        super().__init__(bin_folder, folder)
        self.threads = threads

    def prepare(self):
        self.make_key()
        self.pack_fashion("fashion.h5", "fashion-test.h5")
        if not (self.folder / "text.h5").exists():
            (self.folder / "text").write_text(subprocess.run(["bible", "-f", "-l80", "gen1:1-rev22:21"], capture_output=True, text=True).stdout)
            self.run("dgx-pack", "text", "text", "--context", 128, "-o", "text.h5")

    def train(self, subject):
        task = f"{subject.name}.json"
        if not (self.folder / task).exists():
            self.run("dgx-submit", "--data", f"{subject.data}.h5", "--model", subject.spec, "--loss", "cross-entropy", *subject.options,
                     "--key", "key.pem", "-o", task)
        done = json.loads(self.run("dgx-train", task, "--data", f"{subject.data}.h5", "-o", f"{subject.name}.run", "--threads", self.threads, "--json").splitlines()[-1])
        with h5py.File(self.folder / f"{subject.name}.run" / "index.h5") as file:
            losses = np.asarray(file["losses"][()], "f8")
        score = {}
        if subject.accuracy:
            score = json.loads(self.run("dgx-train", task, "--data", f"{subject.data}-test.h5", "--evaluate", f"{subject.name}.run", "--json"))
        return done, losses, score

    def statement(self, subject):
        import base64
        envelope = json.loads((self.folder / f"{subject.name}.json").read_text())
        return json.loads(base64.b64decode(envelope["payload"]))["predicate"]


def train_eagerly(bench, subject):
    """The same training by PyTorch; the loss of each step."""
    kept = bench.folder / f"{subject.name}.eager.npy"
    if kept.exists():
        return np.load(kept)
    task = bench.statement(subject)
    torch.set_num_threads(bench.threads)
    model = subject.network()
    program = [json.loads(line) for line in open(bench.folder / f"{subject.name}.program.jsonl")]
    state = inputs.initial_state(program, int(task["seed"]), subject.spec)
    own = model.state_dict()
    for entry, value in state.items():
        if entry.startswith("model/"):
            own[model.name(entry[len("model/"):])].copy_(torch.from_numpy(np.asarray(value).copy()))
    with h5py.File(bench.folder / f"{subject.data}.h5") as file:
        x, y = file["x"][()], file["y"][()]
    optimizer = make_optimizer(model, task["optimizer"])
    losses = []
    for step in range(task["steps"]):
        chosen = inputs.batch_indices(int(task["seed"]), len(x), task["batch"], step)
        batch = torch.from_numpy(x[chosen])
        batch = batch.float() * float(np.float32(1 / 255)) if subject.data == "fashion" else batch.long()
        for group in optimizer.param_groups:
            group["lr"] = inputs.learning_rate(task, step)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch).flatten(0, -2), torch.from_numpy(y[chosen]).long().flatten())
        loss = loss + model.penalty() if hasattr(model, "penalty") else loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0:
            print(f"{subject.name}, eager: step {step} of {task['steps']}, loss {losses[-1]:.4f}", file=sys.stderr)
    np.save(kept, np.array(losses))
    return np.array(losses)


def make_optimizer(model, spec):
    number = lambda key: float.fromhex(spec[key])
    if spec["kind"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=1, momentum=number("momentum"), weight_decay=number("weight_decay"))
    kind = torch.optim.AdamW if spec["kind"] == "adamw" else torch.optim.Adam
    return kind(model.parameters(), lr=1, betas=(number("beta1"), number("beta2")), eps=number("eps"), weight_decay=number("weight_decay"))


def smooth(losses, window):
    whole = len(losses) // window * window
    return losses[:whole].reshape(-1, window).mean(1)


def picture(curves):
    """One panel a subject, exact and eager in it."""
    width, height, left, top = 300, 220, 46, 34
    out = Picture((width + left) * len(curves) + 20, height + top + 44)
    for panel, (subject, exact, eager) in enumerate(curves):
        a, b = smooth(exact, subject.window), smooth(eager, subject.window)
        low, high = math.log(min(a.min(), b.min()) * 0.95), math.log(max(a.max(), b.max()) * 1.05)
        x0 = left + panel * (width + left)
        place = lambda n, v: (x0 + n / (len(a) - 1) * width, top + (high - math.log(v)) / (high - low) * height)
        out.text(x0, top - 14, subject.title, "bold")
        out.box(x0, top, width, height, "frame")
        for tick in (0.05, 0.1, 0.2, 0.3, 0.5, 1, 1.5, 2, 3, 4, 5):
            if low < math.log(tick) < high:
                y = place(0, tick)[1]
                out.line(x0, y, x0 + width, y, "grid")
                out.text(x0 - 5, y + 4, f"{tick:g}", anchor="end")
        for part in range(5):
            out.text(x0 + part * width / 4, top + height + 15, len(exact) * part // 4, anchor="middle")
        for values, kind in ((b, "peer thick"), (a, "ours line")):
            out.curve((place(n, v) for n, v in enumerate(values)), kind)
        out.text(x0 + width / 2, top + height + 31, f"step (loss: mean of {subject.window} steps)", anchor="middle")
    x0 = left + width - 92
    for y, kind, name in ((top + 16, "ours line", "dgx, exact"), (top + 32, "peer thick", "PyTorch")):
        out.line(x0, y, x0 + 22, y, kind)
        out.text(x0 + 28, y + 4, name)
    return out.dump()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--plugins", required=True, help="folder with the HDF5 filter plugin")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("names", nargs="*", help="mlp, resnet20, gpt, switch; default: all")
    options = parser.parse_args()
    h5py.h5pl.prepend(str(pathlib.Path(options.plugins).resolve()).encode())
    bench = Bench(options.bin, options.folder, options.threads)
    bench.prepare()
    curves, rows, failed = [], [], False
    for subject in SUBJECTS:
        if options.names and subject.name not in options.names:
            continue
        done, exact, score = bench.train(subject)
        eager = train_eagerly(bench, subject)
        last = len(exact) // 20
        a, b = exact[-last:].mean(), eager[-last:].mean()
        accuracy = score["accuracy"] if score else None
        failed |= abs(a / b - 1) > (0.01 if subject.data == "text" else 0.1) or (accuracy is not None and accuracy < subject.accuracy)
        rows.append(f"| {subject.title} | {len(exact)} | {a:.4f} | {b:.4f} | {100 * (a / b - 1):+.2f} % | {'' if accuracy is None else f'{accuracy:.4f}'} | `{done['state'][:16]}…` |")
        curves.append((subject, exact, eager))
    print("| model, data | steps | loss, exact | loss, PyTorch | difference | test accuracy | final state |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))
    (bench.folder / "curves.svg").write_text(picture(curves))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
