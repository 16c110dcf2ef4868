"""A depthwise network: separable convolutions, group norm, SiLU, squeeze and excitation."""

from common import Data, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn
from torch.nn import functional as F


class Separable(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs, bias=False)
        self.norm1 = nn.GroupNorm(4, inputs)
        self.squeeze = nn.Conv2d(inputs, inputs // 4, 1)
        self.excite = nn.Conv2d(inputs // 4, inputs, 1)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm2 = nn.GroupNorm(4, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.norm1(self.depthwise(x)))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return F.silu(self.norm2(self.pointwise(x * gate)))


class Depthwise(nn.Module):
    def __init__(self, classes: int = 10):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.body = nn.Sequential(Separable(16, 24, 1), Separable(24, 32, 2), Separable(32, 32, 1))
        self.head = nn.Linear(32, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.body(F.silu(self.stem(images.unsqueeze(1))))
        return self.head(x.mean(dim=(2, 3)))


if __name__ == "__main__":
    run(Depthwise, Data.IMAGES, optimizer="sgd:lr=0.1,momentum=0.9")
