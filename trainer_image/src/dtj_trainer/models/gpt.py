"""A decoder-only transformer: GPT-2's layout (Radford et al. 2019) without biases and without dropout."""

import math

from torch import Tensor, arange, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Causal multi-head self-attention, (B, T, W) -> (B, T, W)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        # (B, T, 3W) -> three times (B, H, T, W/H)
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        projected: Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
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

    def __init__(self, *, layers: int, width: int, heads: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
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

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(arange(tokens.shape[1], device=tokens.device))  # (B, T, W)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)  # (B, T, V)
