"""Data parallelism: every rank has the whole model, gradients are averaged (Li et al. 2020, PyTorch Distributed)."""

from collections.abc import Iterable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dtj_trainer.distributed import World
from dtj_trainer.models import loss


class DataParallel:
    """The strategy `ddp`. `model` stays the bare one, with its plain names."""

    def __init__(self, model: nn.Module, world: World) -> None:
        self.model = model
        self.replica: nn.Module = model
        if world.size > 1:
            devices = [world.device] if world.device.type == "cuda" else None
            self.replica = DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)

    def forward_backward(self, microbatches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Gradients of the mean loss over the microbatches of all ranks. Returns this rank's mean loss, on the device.

        Ranks exchange gradients in the last backward pass only.
        """
        batches = list(microbatches)
        total = torch.zeros((), device=batches[0][0].device)
        for i, (inputs, targets) in enumerate(batches):
            with self._together(last=i == len(batches) - 1):
                part = loss(self.replica(inputs), targets) / len(batches)
                part.backward()  # type: ignore[no-untyped-call]
            total += part.detach()
        return total

    def _together(self, *, last: bool) -> "nullcontext[None]":
        if last or not isinstance(self.replica, DistributedDataParallel):
            return nullcontext()
        return self.replica.no_sync()  # type: ignore[return-value]
