"""A decoder in the manner of LLaMA: rotary positions, RMS norm, gated feed-forward layers, grouped keys and values, tied embedding."""

from common import Data, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, context: int):
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.depth, bias=False)
        self.value = nn.Linear(width, groups * self.depth, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        angles = torch.outer(torch.arange(context).float(), 10000 ** (-torch.arange(0, self.depth, 2) / self.depth))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-b, a], dim=-1) * self.sin

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, positions, width = x.shape
        q = self.query(x).view(batch, positions, self.heads, self.depth).transpose(1, 2)
        k = self.key(x).view(batch, positions, self.groups, self.depth).transpose(1, 2)
        v = self.value(x).view(batch, positions, self.groups, self.depth).transpose(1, 2)
        k = self.rotated(k).repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        scores = self.rotated(q) @ k.transpose(2, 3) / self.depth**0.5
        mask = torch.triu(torch.full([positions, positions], float("-inf")), 1)
        weights = torch.softmax(scores + mask, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, positions, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocab: int = 256, width: int = 32, layers: int = 2, heads: int = 4, groups: int = 2, context: int = 24):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        nn.init.normal_(self.tokens.weight, std=0.05)
        self.layers = nn.ModuleList([Layer(width, heads, groups, context) for _ in range(layers)])
        self.norm = RmsNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.tokens.weight)


if __name__ == "__main__":
    run(Llama, Data.TEXT, optimizer="adamw:lr=1e-2,betas=0.9/0.95,weight-decay=0.1")
