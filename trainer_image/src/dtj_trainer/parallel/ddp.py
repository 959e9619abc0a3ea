"""Data parallelism: every rank has the whole model, gradients are averaged (Li et al. 2020, PyTorch Distributed)."""

from contextlib import AbstractContextManager, nullcontext

import torch
from dtj_api.parallel import Ddp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dtj_trainer.parallel.holdings import Holdings, anatomy
from dtj_trainer.parallel.strategy import Strategy


class DataParallel(Strategy):
    """The strategy `ddp`."""

    def __init__(
        self, model: nn.Module, config: Ddp, device: torch.device, autocast: torch.dtype | None, *, alone: bool
    ) -> None:
        super().__init__(model, Holdings([model], anatomy(model)), device, autocast)
        if not alone:
            replica = DistributedDataParallel(
                model,
                device_ids=[device] if device.type == "cuda" else None,
                bucket_cap_mb=config.bucket_mb,
                static_graph=config.static_graph,
                find_unused_parameters=config.find_unused_parameters,
                gradient_as_bucket_view=config.gradient_as_bucket_view,
            )
            self._called = replica
            if config.compression != "none":
                # its imports take a second
                from dtj_trainer.parallel.compression import compress

                self.traffic = compress(replica, config)

    def exchange(self, *, last: bool) -> AbstractContextManager[object]:
        if last or not isinstance(self._called, DistributedDataParallel):
            return nullcontext()
        return self._called.no_sync()
