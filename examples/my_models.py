"""A model of one's own for examples/own-model.yaml: torch's transformer over bytes of text."""

import torch
from torch import Tensor, nn


class Transformer(nn.Module):
    """Tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, length: int, vocabulary: int, layers: int, width: int) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions.weight
        mask = torch.full((tokens.shape[1], tokens.shape[1]), -torch.inf, device=x.device, dtype=x.dtype).triu(1)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        logits: Tensor = self.output(self.norm(x))
        return logits


def build(inputs: int, outputs: int, layers: int = 2, width: int = 64) -> nn.Module:
    """`inputs` tokens in a sequence, of `outputs` kinds."""
    return Transformer(inputs, outputs, layers, width)
