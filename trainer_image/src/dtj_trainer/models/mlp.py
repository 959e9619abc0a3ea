"""A multilayer perceptron for flat samples."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from dtj_trainer.models.parts import Parts


class Layer(nn.Module):
    """(B, I) -> (B, O), with GELU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.linear(x))


class MLP(nn.Module):
    """Features (B, F) -> `layers` hidden layers of `width` with GELU -> logits of the classes (B, C)."""

    def __init__(self, *, layers: int, width: int, features: int, classes: int) -> None:
        super().__init__()
        sizes = [features] + [width] * layers
        self.layers = nn.ModuleList(Layer(inputs, outputs) for inputs, outputs in pairwise(sizes))
        self.output = nn.Linear(width, classes)
        linears = [*(f"layers.{i}.linear" for i in range(layers)), "output"]
        # pairs: what the first splits, the second sums up; one that is left over stays whole
        paired = linears[: len(linears) // 2 * 2]
        self.parts = Parts(
            blocks="layers",
            head=lambda model, x: model.output(x),
            after=("output",),
            column=tuple(paired[::2]),
            row=tuple(paired[1::2]),
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.output(x)
        return logits
