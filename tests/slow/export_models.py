"""Eight models, exported in training and evaluation mode by the torch that runs this: export_models.py FOLDER"""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """A block of a transformer with causal attention, as decoders have it."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.before, self.after = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, positions, width = x.shape
        q, k, v = (part.view(batch, positions, self.heads, -1).transpose(1, 2) for part in self.project(self.before(x)).chunk(3, -1))
        x = x + self.drop(self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, positions, width)))
        return x + self.down(F.gelu(self.up(self.after(x)), approximate="tanh"))


class Decoder(nn.Module):
    """A decoder of one block; its mean over positions is classified."""

    def __init__(self):
        super().__init__()
        self.tokens, self.block, self.head = nn.Linear(16, 32), Attention(), nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.block(self.tokens(x.view(x.shape[0], 16, 16))).mean(1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv, self.head = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Linear(8, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x.view(-1, 1, 16, 16))))
        return self.head(F.adaptive_avg_pool2d(x + self.conv(x), 1).flatten(1))


class Gated(nn.Module):
    """Root mean square norm and SwiGLU by their definitions."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))
        self.gate, self.up, self.down = nn.Linear(256, 64, bias=False), nn.Linear(256, 64, bias=False), nn.Linear(64, 10, bias=False)

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Frozen(nn.Module):
    """A frozen layer under no_grad, and a trained head."""

    def __init__(self):
        super().__init__()
        self.base, self.head = nn.Linear(256, 32).requires_grad_(False), nn.Linear(32, 10)

    def forward(self, x):
        with torch.no_grad():
            x = torch.tanh(self.base(x))
        return self.head(x)


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10)),
    "dropout": lambda: nn.Sequential(nn.Linear(256, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 10)),
    "decoder": Decoder,
    "residual": Residual,
    "gated": Gated,
    "frozen": Frozen,
    "convolutions": lambda: nn.Sequential(nn.Unflatten(1, (1, 16, 16)), nn.Conv2d(1, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.MaxPool2d(2),
                                          nn.Flatten(), nn.Linear(72, 10)),
    "row": lambda: nn.Sequential(nn.Unflatten(1, (1, 256)), nn.Conv1d(1, 4, 5, padding=2), nn.LeakyReLU(), nn.AvgPool1d(4), nn.Flatten(), nn.LayerNorm(256),
                                 nn.Linear(256, 10)),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sample = torch.zeros(8, 256)
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    # Archives of older releases are refused, whatever is in them.
    for name in MODELS if release >= (2, 9) else [min(MODELS)]:
        torch.manual_seed(0)
        model = MODELS[name]()
        for suffix, training in (("", True), ("_eval", False)):
            torch.export.save(torch.export.export(model.train(training), (sample,)), folder / f"{name}{suffix}.pt2")
    (folder / "made").touch()


if __name__ == "__main__":
    main()
