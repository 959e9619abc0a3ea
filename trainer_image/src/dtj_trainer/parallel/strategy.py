"""What every strategy does: gradients of one optimizer step, and logits for an evaluation."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from dtj_trainer.models import loss, summed_loss
from dtj_trainer.parallel.dtensor import whole
from dtj_trainer.parallel.holdings import Holdings
from dtj_trainer.parallel.norm import squared_norm

Microbatch = tuple[Tensor, Tensor]


class Traffic:
    """Bytes of gradients that this rank has given away, and what they would have been without compression."""

    def __init__(self) -> None:
        self.sent = self.dense = 0

    def count(self, sent: int, dense: int) -> None:
        self.sent += sent
        self.dense += dense


class Strategy:
    """One rank's part.

    Args:
        called: the model, or what wraps it.
        holdings: what this rank has of the model.
        autocast: the format of its matrix products where the parameters' own is another one.
        split_classes: logits are split between ranks by classes, and so is the loss.

    Attributes:
        answers: this rank has the model's answers; else another stage of a pipeline has them.
        even: every rank must take part in every forward pass, also where it has no samples left.
        whole_batches: each pass has as many samples as those of training.
        traffic: of compressed gradients.
    """

    answers = True
    even = whole_batches = False
    traffic: Traffic | None = None

    def __init__(
        self,
        called: nn.Module,
        holdings: Holdings,
        device: torch.device,
        autocast: torch.dtype | None,
        *,
        split_classes: bool = False,
    ) -> None:
        self.holdings = holdings
        self._called, self._device, self._autocast, self._split_classes = called, device, autocast, split_classes

    def forward_backward(self, microbatches: Sequence[Microbatch], scale: float = 1.0) -> Tensor:
        """Gradients of the mean loss over the microbatches of all ranks, times `scale`.

        Returns:
            this rank's mean loss, on the device; 0 where it has no answers.
        """
        total = torch.zeros((), device=self._device)
        for i, (inputs, targets) in enumerate(microbatches):
            with self.exchange(last=i == len(microbatches) - 1), self.loss_scope():
                with self.formats():
                    part = loss(self._called(inputs), targets) / len(microbatches)
                (part * scale).backward()  # type: ignore[no-untyped-call]
            total += whole(part.detach())
        return total

    def summed_loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Over all targets that are not models.IGNORED, without gradients; 0 where it has no answers."""
        with torch.no_grad(), self.loss_scope():
            with self.formats():
                logits: Tensor = self._called_alone(inputs)
            return whole(summed_loss(logits, targets))

    def gradient_norm(self) -> Tensor:
        """The global norm of all gradients, on the device."""
        gradients = [p.grad for _, p in self.holdings.parameters() if p.grad is not None]
        return squared_norm(gradients, self._device).sqrt()

    def exchange(self, *, last: bool) -> AbstractContextManager[object]:
        """Around one forward and backward pass; `last` of the step."""
        return nullcontext()

    def formats(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self._device.type, self._autocast)

    def loss_scope(self) -> AbstractContextManager[object]:
        """Around loss and backward pass."""
        if not self._split_classes:
            return nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel

        scope: AbstractContextManager[object] = loss_parallel()
        return scope

    def _called_alone(self, inputs: Tensor) -> Tensor:
        """The model's answer without what wraps it, which may want all ranks there."""
        answer: Tensor = self.holdings.modules[0](inputs)
        return answer
