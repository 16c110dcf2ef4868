"""A spatial transformer: it samples the image where an affine map says, adds a position field resized bicubically, and pools by learned powers."""

from common import Data, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn
from torch.nn import functional as F


class SpatialTransformer(nn.Module):
    def __init__(self, channels: int = 8):
        super().__init__()
        self.look = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(49, 16), nn.Tanh())
        self.where = nn.Linear(16, 6)
        nn.init.normal_(self.where.weight, std=0.05)
        self.where.bias.data.copy_(torch.tensor([0.83, 0.02, 0.03, -0.01, 0.87, 0.01]))
        self.convolution = nn.Conv2d(1, channels, 3, padding=1)
        self.field = nn.Parameter(torch.randn(1, channels, 5, 5) * 0.1)
        self.power = nn.Parameter(torch.full([channels, 1, 1], 3.0))
        self.out = nn.Linear(4 * channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images.unsqueeze(1)
        theta = self.where(self.look(x)).view(-1, 2, 3)
        grid = F.affine_grid(theta, [x.size(0), 1, 12, 12], align_corners=False)
        x = F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        x = (x - x.min()) / (x.max() - x.min() + 1e-3)
        field = F.interpolate(self.field, size=[12, 12], mode="bicubic", align_corners=False)
        x = F.softplus(self.convolution(x) + field)
        x = F.avg_pool2d(x.pow(self.power), 6).pow(1.0 / self.power)
        return self.out(x.flatten(1))


if __name__ == "__main__":
    run(SpatialTransformer, Data.IMAGES, optimizer="adam:lr=1e-2")
