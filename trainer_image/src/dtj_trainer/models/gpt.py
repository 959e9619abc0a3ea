"""A decoder-only transformer: GPT-2's layout (Radford et al. 2019) without biases and without dropout."""

from typing import Any

from torch import Tensor, arange, nn

from dtj_trainer.models.parts import Parts
from dtj_trainer.models.transformer import Block, initialise


class GPT(nn.Module):
    """Tokens (B, T) -> logits of the next token (B, T, V). The output layer shares the token embedding's weights."""

    parts = Parts(
        blocks="blocks",
        embed=lambda model, tokens: model.embed(tokens),
        head=lambda model, x: model.head(x),
        before=("tokens", "positions"),
        after=("norm", "output"),
        column=("blocks.*.attention.qkv", "blocks.*.mlp.up"),
        row=("blocks.*.attention.out", "blocks.*.mlp.down"),
        vocabulary=("tokens",),
        output="output",
        tokenwise=("blocks.*.norm1", "blocks.*.norm2", "norm"),
        positions=("positions",),
    )

    def __init__(self, *, layers: int, width: int, heads: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        self.register_load_state_dict_pre_hook(_give_tied)  # type: ignore[no-untyped-call]
        initialise(self, layers, width)

    def embed(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T, W)"""
        x: Tensor = self.tokens(tokens) + self.positions(arange(tokens.shape[1], device=tokens.device))
        return x

    def head(self, x: Tensor) -> Tensor:
        """(B, T, W) -> (B, T, V)"""
        logits: Tensor = self.output(self.norm(x))
        return logits

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _give_tied(module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Checkpoints have tied weights once."""
    state.setdefault(f"{prefix}output.weight", state.get(f"{prefix}tokens.weight"))
