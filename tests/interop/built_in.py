"""Built-in models by their definitions: built_in.py --bin FOLDER --plugins FOLDER

Trains a decoder, one with experts and a residual network for a few steps, exports their weights, computes the networks that dgx-submit(1) describes in
binary64 NumPy from these, and compares the loss that dgx-train --evaluate reports. Exits 77 without NumPy.
"""

import json
import math
import struct
import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import support

TYPES = {"F32": "<f4", "I64": "<i8", "U8": "u1"}


def read_weights(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header, numbers = json.loads(data[8:8 + size]), data[8 + size:]
    header.pop("__metadata__", None)
    return {name: np.frombuffer(numbers[slice(*item["data_offsets"])], TYPES[item["dtype"]]).reshape(item["shape"]).astype(np.float64)
            for name, item in header.items()}


class Network:
    def __init__(self, weights):
        self.weights, self.used = weights, set()

    def __call__(self, name):
        self.used.add(name)
        return self.weights[name]

    def linear(self, x, name):
        return x @ self(name + ".weight").T + self(name + ".bias")


def layer_norm(net, x, name):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * net(name + ".weight") + net(name + ".bias")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(net, x, name, heads):
    batch, length, width = x.shape
    q, k, v = (part.reshape(batch, length, heads, width // heads).swapaxes(1, 2)
               for part in np.split(net.linear(x, name + ".c_attn"), 3, axis=-1))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(width // heads)
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    return net.linear((softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape), name + ".c_proj")


def perceptron(net, x, name):
    up = net.linear(x, name + "c_fc")
    return net.linear(up / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3))), name + "c_proj")


def mixture(net, x, name, experts, capacity):
    """One expert a token, which has so many slots for a sample."""
    chances = softmax(x @ net(name + "router.weight").T)
    y = np.zeros_like(x)
    slots = min(x.shape[1], math.ceil(x.shape[1] * capacity / experts))
    for expert in range(experts):
        mine = chances.argmax(-1) == expert
        kept = mine & (np.cumsum(mine, 1) <= slots)
        y[kept] = perceptron(net, x[kept], f"{name}experts.{expert}.") * chances[kept][:, expert:expert + 1]
    return y


def decoder(net, tokens, layers, heads, tied, experts=None):
    """`experts`: their number, their capacity, and how many blocks have one with experts."""
    x = net("wte.weight")[tokens] + net("wpe.weight")[:tokens.shape[1]]
    for n in range(layers):
        x = x + attention(net, layer_norm(net, x, f"h.{n}.ln_1"), f"h.{n}.attn", heads)
        inner, has_experts = layer_norm(net, x, f"h.{n}.ln_2"), experts and (n + 1) % experts[2] == 0
        x = x + (mixture(net, inner, f"h.{n}.mlp.", *experts[:2]) if has_experts else perceptron(net, inner, f"h.{n}.mlp."))
    return layer_norm(net, x, "ln_f") @ net("wte.weight" if tied else "lm_head.weight").T


def convolution(net, x, prefix, number, stride):
    """3 by 3, padded by 1, then batch norm with the running statistics."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    y = np.einsum("nchwij,ocij->nohw", windows, net(f"{prefix}conv{number}.weight"))
    mean, variance, scale, shift = (net(f"{prefix}bn{number}.{field}")[:, None, None]
                                    for field in ("running_mean", "running_var", "weight", "bias"))
    return (y - mean) / np.sqrt(variance + 1e-5) * scale + shift


def residual_network(net, images):
    x = np.maximum(convolution(net, images, "", 1, 1), 0)
    for stage in (1, 2, 3):
        for block in (0, 1, 2):
            prefix, stride = f"layer{stage}.{block}.", 2 if stage > 1 and block == 0 else 1
            y = convolution(net, np.maximum(convolution(net, x, prefix, 1, stride), 0), prefix, 2, 1)
            added = (y.shape[1] - x.shape[1]) // 2
            shortcut = np.pad(x[:, :, ::stride, ::stride], ((0, 0), (added, added), (0, 0), (0, 0)))
            x = np.maximum(y + shortcut, 0)
    return net.linear(x.mean((2, 3)), "fc")


def check(bench, name, data, words, network, labels):
    """`network` gives [..., classes] from a Network."""
    bench.run("dgx-submit", "--data", data, *words, "--batch", "8", "--seed", "11", "--key", "submitter.pem", "-o", f"{name}.json")
    bench.run("dgx-train", f"{name}.json", "--data", data, "-o", f"{name}.run")
    found = bench.run("dgx-train", f"{name}.json", "--data", data, "--evaluate", f"{name}.run")
    bench.run("dgx-inspect", "export", f"{name}.run", "-o", f"{name}.safetensors")
    net = Network(read_weights(bench.path(f"{name}.safetensors")))
    output = network(net)
    losses = -np.log(np.take_along_axis(softmax(output), labels[..., None], -1)[..., 0])
    bench.check(net.used == set(net.weights), f"{name}: entries that the definition does not use: {sorted(set(net.weights) - net.used)}")
    bench.check(abs(losses.mean() - found["loss"]) < 1e-4 * losses.mean(), f"{name}: loss {found['loss']}, not {losses.mean()}")
    hits = (output.argmax(-1) == labels).mean()
    bench.check(abs(hits - found["accuracy"]) < 2 / labels.size, f"{name}: accuracy {found['accuracy']}, not {hits}")
    if labels.ndim > 1:
        bench.check(abs(math.log(found["perplexity"]) - found["loss"]) < 1e-9, f"{name}: perplexity")


def main():
    with support.Bench(support.arguments().bin) as bench:
        numbers = np.random.default_rng(5)
        bench.run("dgx-key", "new", "submitter")
        with open(bench.path("text"), "wb") as file:
            file.write(bytes(np.cumsum(numbers.integers(0, 3, 401)).astype(np.uint8) % 50))
        bench.run("dgx-pack", "text", "text", "--context", "10", "-o", "text.h5")
        with open(bench.path("text"), "rb") as file:
            text = np.frombuffer(file.read(), np.uint8).astype(np.int64)
        for tied in (False, True):
            spec = "gpt:layers=2,width=24,heads=3,vocab=60" + (",tied" if tied else ",dropout=0.1")
            words = ["--model", spec, "--loss", "cross-entropy", "--optimizer", "adamw:lr=1e-2", "--steps", "30"]
            check(bench, f"decoder{tied:d}", "text.h5", words,
                  lambda net, tied=tied: decoder(net, text[:400].reshape(40, 10), 2, 3, tied), text[1:].reshape(40, 10))

        spec = "switch:layers=2,width=24,heads=3,vocab=60,experts=3,capacity=0.9"
        words = ["--model", spec, "--loss", "cross-entropy", "--optimizer", "adamw:lr=1e-2", "--steps", "30"]
        check(bench, "switch", "text.h5", words, lambda net: decoder(net, text[:400].reshape(40, 10), 2, 3, False, (3, 0.9, 2)), text[1:].reshape(40, 10))

        images, labels = numbers.integers(0, 256, (19, 2, 17, 21), np.uint8), numbers.integers(0, 4, 19)
        np.save(bench.path("x.npy"), images)
        np.save(bench.path("y.npy"), labels)
        bench.run("dgx-pack", "npy", "--x", "x.npy", "--y", "y.npy", "--scale", "0.00390625", "--shift", "-0.5", "-o", "images.h5")
        words = ["--model", "resnet20", "--loss", "cross-entropy:label-smoothing=0.1", "--optimizer", "sgd:lr=0.01,momentum=0.9", "--steps", "6"]
        check(bench, "residual", "images.h5", words, lambda net: residual_network(net, images / 256 - 0.5), labels)


main()
