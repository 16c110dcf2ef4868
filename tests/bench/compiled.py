"""The peer by torch.compile: compiled.py --model SPEC --optimizer SPEC --batch N --sample SIZES --threads N [--tokens] [--data FOLDER] [--eager] [--gpu]

The networks of eager.cc and of scripted.py as a user of PyTorch writes them, forward and cross entropy compiled by inductor, with the fused optimiser. Its
lines are those of peer.h: "ready" once it is compiled; then a number of steps on standard input, and their seconds on standard output.
"""

import argparse
import logging
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.added = outputs - inputs
        self.first = nn.Conv2d(inputs, outputs, 3, stride=2 if self.added else 1, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.norm_2(self.second(F.relu(self.norm_1(self.first(x)))))
        if self.added:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added // 2))
        return F.relu(y + x)


class Pool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def resnet20():
    parts = [nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    parts += [Residual(before, after) for before, after in zip(widths, widths[1:])]
    return nn.Sequential(*parts, Pool(), nn.Linear(64, 10)).to(memory_format=torch.channels_last)


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


class Decoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.width, self.heads = width, heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length = x.shape[:2]
        q, k, v = self.attention(self.norm_1(x)).view(batch, length, 3, self.heads, self.width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, self.width))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Embed(nn.Module):
    def __init__(self, vocab, context, width):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(context, width)

    def forward(self, x):
        return self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))


def gpt(spec, length):
    fields = {name: int(number) for name, _, number in (part.partition("=") for part in spec.partition(":")[2].split(","))}
    width = fields["width"]
    parts = [Decoder(width, fields["heads"]) for _ in range(fields["layers"])]
    return nn.Sequential(Embed(fields["vocab"], length, width), *parts, nn.LayerNorm(width), nn.Linear(width, fields["vocab"], bias=False))


def network_of(options):
    if options.model.startswith("script-"):
        import scripted  # its models are of the same Python
        return scripted.MODELS[options.model.removeprefix("script-").replace("-2000", "").replace("-", "_")]()
    if options.model.startswith("gpt"):
        return gpt(options.model, options.sample[0])
    return resnet20() if options.model.startswith("resnet") else mlp()


def optimizer_of(spec, parameters):
    kind, _, fields = spec.partition(":")
    rate = float(dict(part.split("=") for part in fields.split(","))["lr"])
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, fused=True)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, lr=rate, fused=True)


def batches_of(options):
    """Pairs of inputs and targets, resident."""
    shape = [options.batch, *options.sample]
    if options.tokens:
        return [(torch.randint(256, shape), torch.randint(256, [options.batch * options.sample[0]]))]
    if options.data is None:
        x, y = torch.rand([1, *shape]), torch.randint(10, [1, options.batch])
    else:
        labels = torch.frombuffer(bytearray((options.data / "labels").read_bytes()), dtype=torch.uint8)
        images = torch.frombuffer(bytearray((options.data / "images").read_bytes()), dtype=torch.uint8)
        count = len(labels) // options.batch
        x = images[:count * options.batch * (images.numel() // len(labels))].view(count, *shape).float().div_(255)
        y = labels[:count * options.batch].view(count, options.batch).long()
    if options.model.startswith("resnet"):
        return [(each.unsqueeze(1).contiguous(memory_format=torch.channels_last), y[n]) for n, each in enumerate(x)]
    return list(zip(x, y))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--optimizer", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--sample", type=lambda text: [int(size) for size in text.split(",")], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--gpu", action="store_true", help="on a GPU, in binary32 (TF32 off)")
    options = parser.parse_args()
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # says that there is no GPU
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    network, batches = network_of(options), batches_of(options)
    if options.gpu:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        network, batches = network.cuda(), [(x.cuda(), y.cuda()) for x, y in batches]
    optimizer = optimizer_of(options.optimizer, network.parameters())

    def loss_of(x, y):
        output = network(x)
        return F.cross_entropy(output.view(-1, output.shape[-1]), y)

    loss_of = loss_of if options.eager else torch.compile(loss_of)
    taken = 0

    def step():
        nonlocal taken
        optimizer.zero_grad()
        loss_of(*batches[taken % len(batches)]).backward()
        optimizer.step()
        taken += 1
        if options.gpu:
            torch.cuda.synchronize()  # as eager.cc and the exact side do, which give the loss of each step

    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line)):
            step()
        print(f"{time.perf_counter() - begin:.9f}", flush=True)


main()
