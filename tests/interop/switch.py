"""Gradients of the built-in model `switch` by autograd of another program: switch.py --bin FOLDER --plugins FOLDER

PyTorch computes the model of dgx-submit(1) in binary64, token by token as the page tells it and not by slots, and its loss with the balance loss. dgx-train takes two batches
from the same numbers, and then one step of plain gradient descent: it must have that loss, and a gradient of every entry that agrees. Exits 77 without NumPy and PyTorch.
"""

import json
import math
import pathlib
import struct

import support
from support import needs

needs.modules("numpy", "torch")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from spec import inputs  # noqa: E402

VOCABULARY, LENGTH, BATCH, RATE = 40, 9, 5, 1024.0
# By name: layers, width, heads, experts, capacity, balance, every, and further fields.
CASES = {
    "tight": (2, 12, 2, 3, 0.7, 0.01, 1, ""),
    "roomy": (2, 8, 2, 4, 4.0, 2.0, 2, ",tied"),
    "one": (1, 8, 1, 1, 0.5, 0.5, 1, ""),
    "many": (3, 8, 2, 5, 1.25, 0.0, 3, ""),
}


class Switch:
    def __init__(self, weights, case):
        self.weights = {name: torch.from_numpy(value.astype(np.float64)).requires_grad_() for name, value in weights.items()}
        self.layers, self.width, self.heads, self.experts, self.capacity, self.balance, self.every, _ = case
        self.dropped = self.unused = 0

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        return F.layer_norm(x, (self.width,), self.weights[name + ".weight"], self.weights[name + ".bias"])

    def perceptron(self, x, name):
        return self.linear(F.gelu(self.linear(x, name + "c_fc"), approximate="tanh"), name + "c_proj")

    def attention(self, x, name):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.linear(x, name + "c_attn").split(width, 2))
        scores = (q @ k.transpose(2, 3) / math.sqrt(width // self.heads)).masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        return self.linear((scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape), name + "c_proj")

    def mixture(self, x, name):
        """What experts give a sample [positions, width], and its balance loss."""
        room = min(len(x), math.ceil(len(x) * self.capacity / self.experts))
        chances = (x @ self.weights[name + "router.weight"].T).softmax(1)
        served, out = [0] * self.experts, []
        for token, chance in zip(x, chances):
            expert = int(chance.argmax())
            kept = served[expert] < room
            out.append(chance[expert] * self.perceptron(token, f"{name}experts.{expert}.") if kept else torch.zeros_like(token))
            self.dropped += not kept
            served[expert] += 1
        self.unused += served.count(0)
        share = torch.tensor(served, dtype=torch.float64) / len(x)
        return torch.stack(out), self.experts * (share * chances.mean(0)).sum()

    def loss(self, tokens, labels):
        x = self.weights["wte.weight"][tokens] + self.weights["wpe.weight"]
        unevenness = 0
        for n in range(self.layers):
            x = x + self.attention(self.norm(x, f"h.{n}.ln_1"), f"h.{n}.attn.")
            h = self.norm(x, f"h.{n}.ln_2")
            if (n + 1) % self.every:
                x = x + self.perceptron(h, f"h.{n}.mlp.")
                continue
            parts = [self.mixture(sample, f"h.{n}.mlp.") for sample in h]
            x = x + torch.stack([y for y, _ in parts])
            unevenness = unevenness + torch.stack([b for _, b in parts]).mean()
        logits = self.norm(x, "ln_f") @ self.weights["lm_head.weight" if "lm_head.weight" in self.weights else "wte.weight"].T
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + self.balance * unevenness


def write_weights(path, weights):
    """A .safetensors file."""
    header, place = {}, 0
    for name, value in weights.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [place, place + value.nbytes]}
        place += value.nbytes
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(value.tobytes() for value in weights.values()))


def read_weights(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size:][slice(*item["data_offsets"])], "<f4").reshape(item["shape"]) for name, item in header.items()}


def drawn_weights(program, chance):
    """Numbers for all entries of the model. Routers and experts that start small would leave little to compare."""
    lines = [json.loads(line) for line in pathlib.Path(program).read_text().splitlines()]
    shapes = {line["src"][len("state model/"):]: line["s"] for line in lines if line.get("src", "").startswith("state model/")}
    return {name: (chance.normal(size=shape) * 0.4 + (len(shape) == 1 and name.endswith("weight"))).astype("f4") for name, shape in sorted(shapes.items())}


def words_of(case, name, *more):
    layers, width, heads, experts, capacity, balance, every, fields = case
    spec = f"switch:layers={layers},width={width},heads={heads},vocab={VOCABULARY},experts={experts},capacity={capacity},balance={balance},every={every}{fields}"
    return ["--data", "text.h5", "--model", spec, "--loss", "cross-entropy", "--optimizer", f"sgd:lr={RATE}", "--batch", BATCH, "--steps", 2, "--accumulate", 2, "--seed", 3, *more, "--key",
            "submitter.pem", "-o", f"{name}.json"]


def check(bench, name, case, data):
    run = lambda *words, **more: bench.run(*map(str, words), **more)
    run("dgx-submit", *words_of(case, f"{name}.form"))
    before = drawn_weights(bench.path(f"{name}.form.program.jsonl"), np.random.default_rng(4))
    write_weights(bench.path(f"{name}.safetensors"), before)
    run("dgx-submit", *words_of(case, name, "--init", f"{name}.safetensors"))
    found = run("dgx-train", f"{name}.json", "--data", "text.h5", "-o", f"{name}.run")["loss"]
    run("dgx-inspect", "export", f"{name}.run", "-o", f"{name}.after.safetensors")
    after = read_weights(bench.path(f"{name}.after.safetensors"))

    model = Switch(before, case)
    for step in (0, 1):
        batch = inputs.batch_indices(3, len(data), BATCH, step)
        loss = model.loss(torch.from_numpy(data[batch, :-1]), torch.from_numpy(data[batch, 1:]))
        (loss / 2).backward()
    bench.check(abs(found / loss.item() - 1) < 1e-6, f"{name}: loss {found}, not {loss.item()}")
    # An expert that no token of the batch chose has none.
    gradients = {entry: np.zeros(weight.shape) if weight.grad is None else weight.grad.numpy() for entry, weight in model.weights.items()}
    largest = max(np.abs(expected).max() for expected in gradients.values())
    worst = 0.0
    for entry, expected in gradients.items():
        gradient = (before[entry].astype(np.float64) - after[entry]) / RATE
        worst = max(worst, np.abs(gradient - expected).max() / max(np.abs(expected).max(), 1e-4 * largest))
    bench.check(worst < 1e-4, f"{name}: a gradient is {worst} away")
    print(f"{name}: loss {found:.4f}, {len(before)} gradients at most {worst:.1e} away, {model.dropped} tokens without a slot, {model.unused} times an expert without a token")
    return model.dropped, model.unused


def main():
    options = support.arguments()
    with support.Bench(options.bin) as bench:
        bench.run("dgx-key", "new", "submitter")
        text = np.random.default_rng(5).integers(0, VOCABULARY, 20 * LENGTH + 1).astype(np.uint8)
        pathlib.Path(bench.path("text")).write_bytes(text.tobytes())
        bench.run("dgx-pack", "text", "text", "--context", str(LENGTH), "-o", "text.h5")
        data = np.array([text[n * LENGTH:(n + 1) * LENGTH + 1] for n in range(20)]).astype(np.int64)
        found = [check(bench, name, case, data) for name, case in CASES.items()]
        bench.check(all(any(column) for column in zip(*found)), f"the cases leave something untried: {found}")


main()
