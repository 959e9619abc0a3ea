"""A model that none of us wrote: torch's own transformer, as a user would bring it. Biases, post-norm, GELU; its mask
is a buffer that no checkpoint keeps."""

import torch
from dtj_trainer.models.parts import Parts
from torch import Tensor, nn


class Stack(nn.Module):
    """Tokens (B, T) -> logits (B, T, V)."""

    mask: Tensor

    def __init__(self, length: int, vocabulary: int, layers: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        block = {"dim_feedforward": 2 * width, "dropout": dropout, "activation": "gelu", "batch_first": True}
        self.stack = nn.ModuleList(Causal(length, nn.TransformerEncoderLayer(width, 2, **block)) for _ in range(layers))
        self.classes = nn.Linear(width, vocabulary)

    def embed(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens) + self.places.weight
        return x

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.stack:
            x = block(x)
        logits: Tensor = self.classes(x)
        return logits


class Causal(nn.Module):
    """(B, T, W) -> (B, T, W)"""

    mask: Tensor

    def __init__(self, length: int, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("mask", torch.full((length, length), -torch.inf).triu(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x, src_mask=self.mask)
        return y


def build(inputs: int, outputs: int, layers: int = 4, width: int = 16, dropout: float = 0.0) -> nn.Module:
    """Says nothing of its parts: what data parallelism needs."""
    return Stack(inputs, outputs, layers, width, dropout)


def build_with_parts(inputs: int, outputs: int, layers: int = 4, width: int = 16) -> nn.Module:
    """What pipelines and tensor parallelism need, said from outside."""
    model = build(inputs, outputs, layers, width)
    model.parts = Parts(  # type: ignore[assignment]
        blocks="stack",
        embed=lambda model, tokens: model.embed(tokens),
        head=lambda model, x: model.classes(x),
        before=("embedding", "places"),
        after=("classes",),
        column=("stack.*.linear1",),
        row=("stack.*.linear2",),
        vocabulary=("embedding",),
        output="classes",
    )
    return model
