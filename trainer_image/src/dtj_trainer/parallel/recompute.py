"""Activation checkpointing: what a block computed forward is computed again backward instead of being kept
(Chen et al. 2016, https://arxiv.org/abs/1604.06174)."""

from functools import partial
from typing import Any

import torch
from dtj_api.parallel import ActivationCheckpointing
from torch import nn
from torch.utils import checkpoint

from dtj_trainer.parallel.blocks import blocks

# What is dear to compute again is kept: products of matrices, attention
_KEPT = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
}


def recompute_blocks(model: nn.Module, mode: ActivationCheckpointing) -> None:
    """Of each block of the model."""
    if mode != "none":
        for block in blocks(model):
            recompute(block, selective=mode == "selective")


def recompute(block: nn.Module, *, selective: bool) -> None:
    """Keep only the block's inputs; where `selective`, the results of the dear operations too."""
    more: dict[str, Any] = {}
    if selective:
        more["context_fn"] = partial(checkpoint.create_selective_checkpoint_contexts, list(_KEPT))
    # the forward, not the module: names and hooks stay where they are
    block.forward = partial(checkpoint.checkpoint, block.forward, use_reentrant=False, **more)
