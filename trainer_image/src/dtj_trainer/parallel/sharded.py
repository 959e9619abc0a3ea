"""A model whose parameters are spread over ranks, and that is called as a whole on each."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from dtj_trainer.parallel.dtensor import place_gradients
from dtj_trainer.parallel.strategy import Microbatch, Strategy


class Sharded(Strategy):
    """The strategies `fsdp`, `hsdp` and `tensor`, and products of them."""

    even = True

    def forward_backward(self, microbatches: Sequence[Microbatch], scale: float = 1.0) -> Tensor:
        loss = super().forward_backward(microbatches, scale)
        place_gradients(parameter for _, parameter in self.holdings.parameters())
        return loss

    def exchange(self, *, last: bool) -> AbstractContextManager[object]:
        if isinstance(self._called, FSDPModule):
            self._called.set_requires_gradient_sync(last)
        return nullcontext()
