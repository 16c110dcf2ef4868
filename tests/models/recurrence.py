"""A gated recurrence over the rows of an image, written out as TorchScript unrolls it: a few thousand calls a step."""

from common import Data, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn


class Recurrence(nn.Module):
    def __init__(self, inputs: int = 28, width: int = 24, classes: int = 10):
        super().__init__()
        self.width = width
        self.update = nn.Linear(inputs + width, width)
        self.reset = nn.Linear(inputs + width, width)
        self.candidate = nn.Linear(inputs + width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        h = torch.zeros([images.shape[0], self.width], dtype=images.dtype)
        for t in range(images.shape[1]):
            x = images[:, t]
            both = torch.cat([x, h], dim=1)
            z = torch.sigmoid(self.update(both))
            r = torch.sigmoid(self.reset(both))
            n = torch.tanh(self.candidate(torch.cat([x, r * h], dim=1)))
            h = (1 - z) * n + z * h
        return self.head(h)


if __name__ == "__main__":
    run(Recurrence, Data.IMAGES, optimizer="adam:lr=1e-2")
