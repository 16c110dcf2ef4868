"""An autoencoder whose code is the nearest of learned vectors, which follow their codes as moving averages under no_grad()."""

from common import Data, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn
from torch.nn import functional as F


class Codebook(nn.Module):
    def __init__(self, count: int, width: int):
        super().__init__()
        self.count = count
        self.register_buffer("vectors", torch.randn(count, width))
        self.register_buffer("uses", torch.ones(count))
        self.register_buffer("sums", self.vectors.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = torch.cdist(x, self.vectors).argmin(dim=-1)
        found = F.embedding(codes, self.vectors)
        if self.training:
            with torch.no_grad():
                chosen = F.one_hot(codes.flatten(), self.count).to(x.dtype)
                self.uses.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
                self.sums.mul_(0.9).add_(chosen.t() @ x.flatten(0, 1), alpha=0.1)
                self.vectors.copy_(self.sums / self.uses.clamp(min=1e-3).unsqueeze(1))
        return x + (found - x).detach()


class Quantised(nn.Module):
    def __init__(self, width: int = 12):
        super().__init__()
        self.down = nn.Conv2d(1, width, 4, stride=4)
        self.codebook = Codebook(16, width)
        self.up = nn.ConvTranspose2d(width, 1, 4, stride=4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.down(images.unsqueeze(1))
        batch, width, height, length = x.shape
        codes = self.codebook(x.flatten(2).transpose(1, 2))
        return torch.sigmoid(self.up(codes.transpose(1, 2).view(batch, width, height, length))).squeeze(1)


if __name__ == "__main__":
    run(Quantised, Data.IMAGES_TO_THEMSELVES, optimizer="adam:lr=1e-2")
