"""What every strategy does: gradients of one optimizer step, and logits for an evaluation."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from dtj_trainer.models import loss

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
        model: with its plain names, whatever was done to it.
        called: what is called in its place: the same, or what wraps it.
        autocast: the format of its matrix products where the parameters' own is another one.

    Attributes:
        even: every rank must take part in every forward pass, also where it has no samples left.
        traffic: of compressed gradients.
    """

    even = False
    traffic: Traffic | None = None

    def __init__(self, model: nn.Module, called: nn.Module, device: torch.device, autocast: torch.dtype | None) -> None:
        self.model, self._called = model, called
        self._device, self._autocast = device, autocast

    def forward_backward(self, microbatches: Sequence[Microbatch], scale: float = 1.0) -> Tensor:
        """Gradients of the mean loss over the microbatches of all ranks, times `scale`.

        Ranks exchange gradients in the last backward pass only.

        Returns:
            this rank's mean loss, on the device.
        """
        total = torch.zeros((), device=self._device)
        for i, (inputs, targets) in enumerate(microbatches):
            with self.exchange(last=i == len(microbatches) - 1):
                with self._formats():
                    part = loss(self._called(inputs), targets) / len(microbatches)
                (part * scale).backward()  # type: ignore[no-untyped-call]
            total += part.detach()
        return total

    def logits(self, inputs: Tensor) -> Tensor:
        """The model's answer, without gradients."""
        with torch.no_grad(), self._formats():
            answer: Tensor = self.model(inputs)
        return answer.float() if answer.dtype != torch.float64 else answer

    def exchange(self, *, last: bool) -> AbstractContextManager[object]:
        """Around one forward and backward pass; `last` of the step."""
        return nullcontext()

    def _formats(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self._device.type, self._autocast)
