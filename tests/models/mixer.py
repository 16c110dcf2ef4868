"""A mixer: perceptrons across patches and across channels in turn."""

from common import Data, Mlp, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, patches: int, width: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across_patches = Mlp(patches, 2 * patches)
        self.across_channels = Mlp(width, 2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across_patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across_channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, size: int = 28, patch: int = 4, width: int = 24, layers: int = 2, classes: int = 10):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * patch, width)
        self.layers = nn.Sequential(*[Layer((size // patch) ** 2, width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        p = self.patch
        x = images.unfold(1, p, p).unfold(2, p, p).reshape(images.shape[0], -1, p * p)
        return self.head(self.norm(self.layers(self.embed(x))).mean(dim=1))


if __name__ == "__main__":
    run(Mixer, Data.IMAGES, optimizer="adamw:lr=3e-3")
