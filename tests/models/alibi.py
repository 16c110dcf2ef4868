"""A decoder with linear attention biases, a mask of minus infinity in a buffer, and positions counted in int32 from a padding mask."""

import math

from common import CONTEXT, Data, Mlp, run  # first: it ends the test where PyTorch is missing

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = Mlp(width, 2 * width)
        distance = torch.arange(CONTEXT)[None, :] - torch.arange(CONTEXT)[:, None]
        slopes = torch.tensor([2.0 ** (-8 * (head + 1) / heads) for head in range(heads)])
        bias = (slopes[:, None, None] * distance).masked_fill(distance > 0, -math.inf)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, positions, width = x.shape
        q, k, v = self.project(self.norm1(x)).chunk(3, dim=-1)
        shape = [batch, positions, self.heads, width // self.heads]
        q, k, v = q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(width // self.heads)
        y = torch.softmax(scores + self.bias[:, :positions, :positions], dim=-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, positions, width))
        return x + self.mlp(self.norm2(x))


class Alibi(nn.Module):
    def __init__(self, vocab: int = 256, width: int = 32):
        super().__init__()
        self.space = ord(" ")
        self.tokens = nn.Embedding(vocab, width, padding_idx=0)
        self.letters = nn.Embedding(CONTEXT + 1, width, padding_idx=0)
        self.layers = nn.ModuleList([Layer(width, heads=4) for _ in range(2)])
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        is_letter = tokens.ne(self.space).int()
        places = torch.cumsum(is_letter, dim=1).type_as(is_letter) * is_letter
        x = self.tokens(tokens) + self.letters(places.long())
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


if __name__ == "__main__":
    run(Alibi, Data.TEXT, optimizer="adamw:lr=1e-2")
