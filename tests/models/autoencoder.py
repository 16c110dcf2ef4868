"""An encoder and decoder with transposed convolutions, batch norm and a skip connection; it learns to give its input back."""

from common import Data, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn
from torch.nn import functional as F


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.down2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.up1 = nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1)
        self.norm3 = nn.BatchNorm2d(8)
        self.up2 = nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images.unsqueeze(1)
        a = F.leaky_relu(self.norm1(self.down1(x)), 0.1)
        b = F.leaky_relu(self.norm2(self.down2(a)), 0.1)
        c = F.leaky_relu(self.norm3(self.up1(b)), 0.1)
        return torch.sigmoid(self.up2(torch.cat([a, c], dim=1))).squeeze(1)


if __name__ == "__main__":
    run(Autoencoder, Data.IMAGES_TO_THEMSELVES, optimizer="adam:lr=5e-3")
