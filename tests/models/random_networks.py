"""Small networks put together at random: random_networks.py --bin FOLDER [--count N] [--seed S]

Each is scripted and trained for a few steps under every configuration, which must give one digest. The first gradients of known networks are
compared with libtorch's, too: those are binary32's, within a tolerance that one network in some 200 exceeds (seed 500032, by 6 %, where a convolution
of one channel is normalised), so others are drawn for their digests alone. The seed of each is printed; --seed S --count 1 tries one, gradients included.
"""

import argparse
import random
import sys
import tempfile
import time

import common
from common import Bench, Data, Failure, check, check_gradients, check_training

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, inside: nn.Module):
        super().__init__()
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inside(x)


class Joined(nn.Module):
    """Two ways through, side by side along the channels."""

    def __init__(self, left: nn.Module, right: nn.Module):
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.left(x), self.right(x)], dim=1)


class Gated(nn.Module):
    def __init__(self, inside: nn.Module):
        super().__init__()
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.inside(x))


class Pooled(nn.Module):
    """Mean and maximum over the positions of [batch, positions, width]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.mean(dim=1), x.amax(dim=1)], dim=1)


class Normalised(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + 0.1)


class ToSequence(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).transpose(1, 2)


class Resized(nn.Module):
    def __init__(self, mode: str):
        super().__init__()
        self.bilinear = mode == "bilinear"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.bilinear:
            return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return F.interpolate(x, scale_factor=2.0, mode="nearest")


class Last(nn.Module):
    """A recurrent layer's last output."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0][:, -1]


class Image(nn.Module):
    """The middle of the image as one channel."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = (x.shape[1] - self.size) // 2
        return x[:, start : start + self.size, start : start + self.size].unsqueeze(1)


class Generator:
    """Random layers; a function of the seed alone."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def activation(self):
        return self.draw.choice([nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Hardswish, nn.Mish, nn.Softsign,
                                 nn.Hardsigmoid, nn.ReLU6, nn.SELU, nn.PReLU, nn.LogSigmoid, nn.Hardtanh])()

    def image_norm(self, channels, size):
        groups = self.draw.choice([g for g in (1, 2, 3, 4) if channels % g == 0])
        norms = [lambda: nn.BatchNorm2d(channels), lambda: nn.GroupNorm(groups, channels), nn.Identity]
        if size > 1:
            norms.append(lambda: nn.InstanceNorm2d(channels, affine=self.draw.random() < 0.5))
        return self.draw.choice(norms)()

    def convolution(self, inputs, outputs, size):
        kernel = self.draw.choice([k for k in (1, 2, 3, 5) if k <= size])
        padding = self.draw.randint(0, kernel // 2)
        dilation = 2 if kernel == 3 and size >= 8 and self.draw.random() < 0.3 else 1
        stride = self.draw.choice([1, 1, 2, 3]) if size >= 6 else 1
        groups = self.draw.choice([g for g in (1, 1, 2, 4) if inputs % g == 0 and outputs % g == 0])
        layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, dilation=dilation, groups=groups, bias=self.draw.random() < 0.5)
        return layer, (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1

    def image_layers(self, size):
        layers, channels = [Image(size)], 1
        for _ in range(self.draw.randint(1, 3)):
            outputs = self.draw.choice([4, 6, 7, 8, 12])
            layer, size = self.convolution(channels, outputs, size)
            layers += [layer, self.image_norm(outputs, size), self.activation()]
            channels = outputs
            extra = self.draw.choice(["none", "residual", "joined", "gated", "max", "average", "up", "transposed"])
            same = lambda: nn.Conv2d(channels, channels, 3, padding=1)
            if extra == "residual":
                layers.append(Residual(nn.Sequential(same(), self.activation())))
            elif extra == "joined":
                layers.append(Joined(same(), nn.Conv2d(channels, 3, 1)))
                channels += 3
            elif extra == "gated":
                layers.append(Gated(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 1))))
            elif extra in ("max", "average") and size >= 4:
                pool = nn.MaxPool2d if extra == "max" else nn.AvgPool2d
                kernel = self.draw.choice([2, 3])
                layers.append(pool(kernel, stride=2, padding=self.draw.randint(0, 1)))
                size = (size + 2 * layers[-1].padding - kernel) // 2 + 1
            elif extra == "up" and size <= 8:
                layers.append(Resized(self.draw.choice(["nearest", "bilinear"])))
                size *= 2
            elif extra == "transposed" and size <= 8:
                layers.append(nn.ConvTranspose2d(channels, 5, 3, stride=2, padding=1, output_padding=self.draw.randint(0, 1)))
                size = (size - 1) * 2 + 1 + layers[-1].output_padding[0]
                channels = 5
        return layers, channels, size

    def sequence_layers(self, width):
        layers = []
        for _ in range(self.draw.randint(1, 2)):
            layers.append(self.draw.choice([
                lambda: Residual(nn.Sequential(nn.LayerNorm(width), common.Attention(width, 2))),
                lambda: Residual(common.Mlp(width, 2 * width)),
                lambda: nn.Sequential(Normalised(), nn.Linear(width, width), self.activation()),
                lambda: nn.Sequential(nn.Linear(width, 2 * width), nn.GLU(-1)),
            ])())
        layers.append(self.draw.choice([Pooled, lambda: Last(nn.GRU(width, width, batch_first=True)), lambda: Last(nn.LSTM(width, width, batch_first=True))])())
        return layers, 2 * width if isinstance(layers[-1], Pooled) else width

    def network(self):
        layers, channels, size = self.image_layers(self.draw.choice([8, 9, 12, 14]))
        kind = self.draw.choice(["flat", "pooled", "sequence"])
        if kind == "sequence" and channels % 2 == 0 and 2 <= size <= 6:
            more, features = self.sequence_layers(channels)
            layers += [ToSequence(), *more]
        elif kind == "flat" and size <= 8:
            layers.append(nn.Flatten())
            features = channels * size * size
        else:
            layers += [nn.AdaptiveMaxPool2d(1) if self.draw.random() < 0.3 else nn.AdaptiveAvgPool2d(1), nn.Flatten()]
            features = channels
        return nn.Sequential(*layers, nn.Linear(features, 10))

    def optimizer(self):
        return self.draw.choice(["sgd:lr=0.05,momentum=0.9", "sgd:lr=0.05,momentum=0.9,nesterov,weight-decay=1e-3", "adam:lr=1e-3", "adamw:lr=1e-3,weight-decay=0.1"])


def try_one(bin_folder, seed, with_gradients):
    """None, or what failed."""
    generator = Generator(seed)
    torch.manual_seed(seed)
    model = generator.network()
    optimizer = generator.optimizer()
    with tempfile.TemporaryDirectory(prefix="dgx-random-") as folder:
        bench = Bench(bin_folder, folder)
        torch.jit.script(model).save(bench.path("model.pt"))
        bench.run("dgx-key", "new", "key")
        try:
            x, y = bench.pack(Data.IMAGES, 12)
            check(bool(torch.isfinite(model(x)).all()), "the network itself is not finite")
            if with_gradients:
                check_gradients(bench, model, Data.IMAGES, x, y)
            check_training(bench, Data.IMAGES, optimizer, 6, 4, falls=False)
        except Failure as failure:
            return f"{failure}\n{model}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the first network; default: 1, and then as many from the clock, for their digests alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    firsts = [(1, True), (int(time.time()) % 1000000, False)] if options.seed is None else [(options.seed, True)]
    tried = failed = 0
    for seed, with_gradients in ((first + n, known) for first, known in firsts for n in range(options.count)):
        failure = try_one(options.bin, seed, with_gradients)
        print(f"seed {seed}: {'one digest' if failure is None else 'FAILED: ' + failure}", flush=True)
        tried, failed = tried + 1, failed + (failure is not None)
    print(f"{tried - failed} of {tried} networks")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
