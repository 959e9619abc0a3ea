"""Fully sharded data parallelism: each rank holds a part of every parameter, its gradient and its optimizer state, and
gathers a block's parameters while it is computed (Rajbhandari et al. 2020, ZeRO; Zhao et al. 2023, PyTorch FSDP)."""

from typing import Literal

import torch
from dtj_api.parallel import Fsdp, Precision
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard

from dtj_trainer.parallel.blocks import blocks, of_size
from dtj_trainer.parallel.precision import dtype

# in a pipeline: a stage before the last, or that; else none
Place = Literal["", "inner", "last"]


def shard(
    model: nn.Module, config: Fsdp, precision: Precision, mesh: DeviceMesh, *, pin: bool, stage: Place = ""
) -> None:
    """Its parameters are DTensors from here on. Two dimensions of `mesh` replicate and shard, one shards.

    Args:
        pin: what is offloaded lies in memory that a GPU reads directly.
        stage: of a pipeline, and whether it makes the logits.
    """
    wrapped = list(of_size(model, config.min_parameters)) if config.wrap == "size" else blocks(model)
    parts = [part for part in wrapped if part is not model]
    reshard = config.reshard_to or (
        config.reshard_after_forward if config.reshard_after_forward is not None else not stage
    )
    offload = CPUOffloadPolicy(pin_memory=pin) if config.cpu_offload else OffloadPolicy()
    for part in parts:
        fully_shard(
            part,
            mesh=mesh,
            reshard_after_forward=reshard,
            mp_policy=_formats(precision, answers=False),
            offload_policy=offload,
        )
    fully_shard(
        model,
        mesh=mesh,
        # what is not in a part is needed first in the backward pass
        reshard_after_forward=False if parts else reshard,
        mp_policy=_formats(precision, answers=stage != "inner"),
        offload_policy=offload,
    )
    _prefetch(parts, config)


def _formats(precision: Precision, *, answers: bool) -> MixedPrecisionPolicy:
    """The model's answer is in full precision, a part's in that of the next one."""
    compute, reduce = dtype(precision.compute), dtype(precision.reduce)
    if compute is None and reduce is None:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(
        param_dtype=compute, reduce_dtype=reduce or torch.float32, output_dtype=torch.float32 if answers else None
    )


def _prefetch(parts: list[nn.Module], config: Fsdp) -> None:
    """Gather so many parts ahead; torch itself gathers the next one early enough where the device runs behind."""
    for i, part in enumerate(parts):
        assert isinstance(part, FSDPModule)
        if ahead := parts[i + 1 : i + 1 + config.forward_prefetch]:
            part.set_modules_to_forward_prefetch(ahead)  # type: ignore[arg-type]
        if behind := parts[max(0, i - config.backward_prefetch) : i][::-1]:
            part.set_modules_to_backward_prefetch(behind)  # type: ignore[arg-type]
