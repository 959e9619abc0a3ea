"""A vision transformer (Dosovitskiy et al. 2021) for square images of one channel."""

import math

from torch import Tensor, nn

from dtj_trainer.models.parts import Parts
from dtj_trainer.models.transformer import Block, initialise

PATCH = 2


class Vision(nn.Module):
    """Flat images (B, F) -> logits of the classes (B, C), by way of patches of 2x2 pixels. The mean over patches takes
    the place of a class token."""

    parts = Parts(
        blocks="blocks",
        embed=lambda model, x: model.embed(x),
        head=lambda model, x: model.head(x),
        before=("patches", "positions"),
        after=("norm", "output"),
        column=("blocks.*.attention.qkv", "blocks.*.mlp.up"),
        row=("blocks.*.attention.out", "blocks.*.mlp.down"),
    )

    def __init__(self, *, layers: int, width: int, heads: int, features: int, classes: int) -> None:
        super().__init__()
        self.side = math.isqrt(features) // PATCH
        self.patches = nn.Linear(PATCH * PATCH, width, bias=False)
        self.positions = nn.Embedding(self.side**2, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=False) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        self.output = nn.Linear(width, classes, bias=False)
        initialise(self, layers, width)

    def embed(self, x: Tensor) -> Tensor:
        """(B, F) -> (B, patches, W)"""
        cut = x.view(-1, self.side, PATCH, self.side, PATCH).transpose(2, 3)  # (B, side, side, PATCH, PATCH)
        y: Tensor = self.patches(cut.flatten(3).flatten(1, 2)) + self.positions.weight
        return y

    def head(self, x: Tensor) -> Tensor:
        """(B, patches, W) -> (B, C)"""
        logits: Tensor = self.output(self.norm(x).mean(1))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        y = self.embed(x)
        for block in self.blocks:
            y = block(y)
        return self.head(y)
