"""Fully sharded data parallelism: each rank holds a part of every parameter, its gradient and its optimizer state, and
gathers a block's parameters while it is computed (Rajbhandari et al. 2020, ZeRO; Zhao et al. 2023, PyTorch FSDP)."""

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
from dtj_api.layout import Layout
from dtj_api.parallel import Fsdp, Precision
from torch import nn
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard

from dtj_trainer.parallel.blocks import blocks, of_size
from dtj_trainer.parallel.precision import dtype
from dtj_trainer.parallel.strategy import Strategy


class FullyShard(Strategy):
    """The strategies `fsdp` and `hsdp`. The model's parameters are DTensors from here on."""

    even = True

    def __init__(
        self, model: nn.Module, config: Fsdp, precision: Precision, mesh: DeviceMesh, device: torch.device
    ) -> None:
        _shard(model, config, precision, mesh, pin=device.type == "cuda")
        super().__init__(model, model, device, autocast=None)

    def exchange(self, *, last: bool) -> AbstractContextManager[object]:
        assert isinstance(self.model, FSDPModule)
        self.model.set_requires_gradient_sync(last)
        return nullcontext()


def mesh_of(layout: Layout, device: torch.device) -> DeviceMesh:
    """`shard` alone, or `replicate` x `shard`."""
    if layout.replicate == 1:
        return init_device_mesh(device.type, (layout.shard,), mesh_dim_names=("shard",))
    return init_device_mesh(device.type, (layout.replicate, layout.shard), mesh_dim_names=("replicate", "shard"))


def set_timeouts(timeout: timedelta) -> None:
    """Of every group there is: those that meshes make, and each resharded block its own, have torch's half an hour."""
    # torch 2.10 has it under its old name
    set_timeout = getattr(dist, "set_timeout", None) or distributed_c10d._set_pg_timeout
    for group in list(distributed_c10d._world.pg_map):
        set_timeout(timeout, group)


def _shard(model: nn.Module, config: Fsdp, precision: Precision, mesh: DeviceMesh, *, pin: bool) -> None:
    wrapped = list(of_size(model, config.min_parameters)) if config.wrap == "size" else blocks(model)
    parts = [part for part in wrapped if part is not model]
    reshard = config.reshard_to or config.reshard_after_forward
    offload = CPUOffloadPolicy(pin_memory=pin) if config.cpu_offload else OffloadPolicy()
    for part in parts:
        fully_shard(
            part,
            mesh=mesh,
            reshard_after_forward=reshard,
            mp_policy=_formats(precision, whole=False),
            offload_policy=offload,
        )
    fully_shard(
        model,
        mesh=mesh,
        # what is not in a part is needed first in the backward pass
        reshard_after_forward=False if parts else reshard,
        mp_policy=_formats(precision, whole=True),
        offload_policy=offload,
    )
    _prefetch(parts, config)


def _formats(precision: Precision, *, whole: bool) -> MixedPrecisionPolicy:
    """The model's answer is in full precision, a part's in that of the next one."""
    compute, reduce = dtype(precision.compute), dtype(precision.reduce)
    if compute is None and reduce is None:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(
        param_dtype=compute, reduce_dtype=reduce or torch.float32, output_dtype=torch.float32 if whole else None
    )


def _prefetch(parts: list[nn.Module], config: Fsdp) -> None:
    """Gather so many parts ahead; torch itself gathers the next one early enough where the device runs behind."""
    for i, part in enumerate(parts):
        assert isinstance(part, FSDPModule)
        if ahead := parts[i + 1 : i + 1 + config.forward_prefetch]:
            part.set_modules_to_forward_prefetch(ahead)  # type: ignore[arg-type]
        if behind := parts[max(0, i - config.backward_prefetch) : i][::-1]:
            part.set_modules_to_backward_prefetch(behind)  # type: ignore[arg-type]
