"""A decoder-only transformer: GPT-2's layout (Radford et al. 2019) without biases and without dropout."""

import math

from torch import Tensor, arange, nn
from torch.nn import functional as F

from dtj_trainer.models.parts import Parts


class Attention(nn.Module):
    """Causal multi-head self-attention, (B, T, W) -> (B, T, W).

    Rows of `qkv` are ordered by head, so that a run of them is of whole heads, and it computes with as many as it gets.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # (B, T, 3W) -> (B, T, H, 3, W/H) -> three times (B, H, T, W/H)
        q, k, v = self.qkv(x).unflatten(-1, (-1, 3, self.size)).permute(3, 0, 2, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        projected: Tensor = self.out(y.transpose(1, 2).flatten(-2))
        return projected


class MLPBlock(nn.Module):
    """Position-wise feed-forward, (B, T, W) -> (B, T, 4W) -> (B, T, W)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(F.gelu(self.up(x)))
        return y


class Block(nn.Module):
    """Pre-norm residual block (Xiong et al. 2020)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, bias=False)
        self.mlp = MLPBlock(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


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
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        self._initialise(layers, width)

    def _initialise(self, layers: int, width: int) -> None:
        """Normal weights of deviation 1 / (2 sqrt(width)): about GPT-2's 0.02 at its own width of 768.

        At width 64 it learns tinydocs to 1.82 in 300 steps, a fixed 0.02 to 2.05: small weights before the first norm
        make gradients too large.
        """
        std = 0.5 / math.sqrt(width)
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                # GPT-2: the sum of 2 x layers residual branches keeps the variance of one
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=std / math.sqrt(2 * layers) if residual else std)

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
