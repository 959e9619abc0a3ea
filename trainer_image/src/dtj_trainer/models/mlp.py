"""A multilayer perceptron for flat samples."""

from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Module):
    """Features (B, F) -> `layers` hidden layers of `width` with GELU -> logits of the classes (B, C)."""

    def __init__(self, *, layers: int, width: int, features: int, classes: int) -> None:
        super().__init__()
        sizes = [features] + [width] * layers
        hidden: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            hidden += [nn.Linear(inputs, outputs), nn.GELU()]
        self.layers = nn.Sequential(*hidden, nn.Linear(sizes[-1], classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits
