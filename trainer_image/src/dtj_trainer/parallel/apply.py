"""From a plain model to one that is trained by many ranks. The order is fixed: each step relies on those before it.

1. recompute: wraps the forward of each block
2. shard or replicate: hooks around it, and the parameters themselves
"""

from collections.abc import Callable
from datetime import timedelta

import torch
from dtj_api.layout import Layout
from dtj_api.training import Training
from torch import nn

from dtj_trainer.checkpoint import state
from dtj_trainer.distributed import World
from dtj_trainer.parallel.blocks import blocks
from dtj_trainer.parallel.ddp import DataParallel
from dtj_trainer.parallel.precision import dtype
from dtj_trainer.parallel.recompute import recompute
from dtj_trainer.parallel.strategy import Strategy


def parallelise(build: Callable[[], nn.Module], training: Training, layout: Layout, world: World) -> Strategy:
    """The strategy that `training` names, over the model that `build` makes. Ranks that hold a part of the model never
    hold all of it, but for rank 0, on the CPU."""
    alone = layout.world_size == 1
    if training.strategy != "ddp" and not alone:
        return _sharded(build, training, layout, world)
    model = build().to(world.device, dtype(training.precision.params))
    _transform(model, training)
    return DataParallel(model, training.ddp, world.device, dtype(training.precision.compute), alone=alone)


def _sharded(build: Callable[[], nn.Module], training: Training, layout: Layout, world: World) -> Strategy:
    # its imports take seconds
    from dtj_trainer.parallel.fsdp import FullyShard, mesh_of, set_timeouts

    with torch.device("meta"):
        model = build().to(dtype(training.precision.params))
    _transform(model, training)
    mesh = mesh_of(layout, world.device)
    strategy = FullyShard(model, training.fsdp, training.precision, mesh, world.device)
    set_timeouts(timedelta(seconds=training.timeout_seconds))
    model.to_empty(device="cpu" if training.fsdp.cpu_offload else world.device)
    state.share_weights(model, build().state_dict() if world.rank == 0 else None, world)
    return strategy


def _transform(model: nn.Module, training: Training) -> None:
    if training.activation_checkpointing != "none":
        for block in blocks(model):
            recompute(block, selective=training.activation_checkpointing == "selective")
