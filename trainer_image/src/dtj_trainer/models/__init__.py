"""Plain torch models, which know nothing of parallelism, and the loss they are trained on."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtj_trainer.models.gpt import GPT
from dtj_trainer.models.imported import imported
from dtj_trainer.models.mlp import MLP
from dtj_trainer.models.vision import Vision
from dtj_trainer.shape import ModelShape


def build(shape: ModelShape, seed: int) -> nn.Module:
    """The model of that shape; its weights depend on `seed` alone.

    Raises:
        TrainerError: INVALID_CONFIG, there is no such function of the user's, or it fails.
    """
    torch.manual_seed(seed)
    if shape.factory is not None:
        return imported(shape)
    if shape.name == "gpt":
        return GPT(
            layers=shape.layers, width=shape.width, heads=shape.heads, length=shape.inputs, vocabulary=shape.outputs
        )
    if shape.name == "vision":
        return Vision(
            layers=shape.layers, width=shape.width, heads=shape.heads, features=shape.inputs, classes=shape.outputs
        )
    return MLP(layers=shape.layers, width=shape.width, features=shape.inputs, classes=shape.outputs)


# a target that does not count: of samples that only fill a batch up
IGNORED = -100


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats; logits (..., C), targets (...)."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def summed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The same, summed over all targets but those that are IGNORED, in fp32 at least."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="sum")
