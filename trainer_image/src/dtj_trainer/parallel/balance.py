"""Where to cut a pipeline: stages that take the same time, by measuring each kind of part once."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain

import torch
from torch import Tensor, nn

from dtj_trainer.parallel.stages import Stage, block_names, compute, owners, parts_of, within

REPEATS = 3
# of the weight of time: where times are alike, parameters decide
PARAMETERS = 0.01


@dataclass(frozen=True)
class Costs:
    """Of what is before the blocks, of each block, and of what is after; in one unit."""

    before: float
    blocks: tuple[float, ...]
    after: float


def balanced(costs: Costs, stages: int) -> tuple[int, ...]:
    """Blocks of each stage, at least one, so that the dearest stage is as cheap as can be. Of equally good ways that
    which gives the last stages more: the first ones keep more microbatches in memory.

    >>> balanced(Costs(0, (1, 1, 1, 1, 1), 0), 3)
    (1, 2, 2)
    >>> balanced(Costs(0, (1, 1, 1, 1, 1, 1), 2), 2)
    (4, 2)
    """
    stage = _Stages(costs)
    count = len(costs.blocks)
    bounds = sorted({stage.cost(a, b) for a in range(count) for b in range(a + 1, count + 1)})
    low, high = 0, len(bounds) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if stage.packed(stages, bounds[middle]) else (middle + 1, high)
    found = stage.packed(stages, bounds[low])
    assert found is not None
    return found


def measured(model: nn.Module, example: Tensor, device: torch.device) -> Costs:
    """Seconds that a forward and backward pass of each part takes on `device` with one microbatch, parameters beside.

    Args:
        model: plain, with values.
    """
    total = sum(p.numel() for p in model.parameters()) or 1
    seen: dict[object, tuple[float, float]] = {}
    before, x = _timed(model, Stage((), first=True, last=False), example, device)
    blocks = []
    for name in block_names(model):
        block = model.get_submodule(name)
        kind = (type(block), *((own, p.shape) for own, p in block.named_parameters()))
        if kind not in seen:
            seconds, x = _timed(model, Stage((name,), first=False, last=False), x, device)
            seen[kind] = seconds, sum(p.numel() for p in block.parameters()) / total
        blocks.append(seen[kind])
    after, _ = _timed(model, Stage((), first=False, last=True), x, device)
    whole = before + after + sum(seconds for seconds, _ in blocks)
    return Costs(before / whole, tuple(s / whole + PARAMETERS * share for s, share in blocks), after / whole)


class _Stages:
    """Of some blocks, with sums taken once."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._count = costs, len(costs.blocks)
        self._sums = [0.0, *accumulate(costs.blocks)]

    def cost(self, first: int, end: int) -> float:
        """Of the blocks from `first` up to `end`, and of what comes with them at either end of the model."""
        inside = self._sums[end] - self._sums[first]
        before = self._costs.before if first == 0 else 0.0
        return inside + before + (self._costs.after if end == self._count else 0.0)

    def packed(self, stages: int, most: float) -> tuple[int, ...] | None:
        """Filled from the last stage on, none dearer than `most`; None where that does not do."""
        counts, end = [], self._count
        for left in reversed(range(stages)):
            start = end - 1
            while start > left and self.cost(start - 1, end) <= most:
                start -= 1
            if self.cost(start, end) > most or (left == 0 and start > 0):
                return None
            counts.append(end - start)
            end = start
        return tuple(reversed(counts))


def _timed(model: nn.Module, piece: Stage, x: Tensor, device: torch.device) -> tuple[float, Tensor]:
    """The least seconds of some passes, forward and backward, after a first one; and the answer."""
    least, forward = math.inf, compute(model, piece)
    with _lent(model, owners(parts_of(model), piece), device):
        for repeat in range(1 + REPEATS):
            # floating inputs have gradients, which other stages want
            given = x.to(device).detach().requires_grad_(x.is_floating_point())
            began = _now(device)
            answer = forward(given)
            if answer.requires_grad:
                answer.float().sum().backward()  # type: ignore[no-untyped-call]
            seconds = _now(device) - began
            # the first one warms up
            least = min(least, seconds) if repeat else least
    return least, answer.detach()


@contextmanager
def _lent(model: nn.Module, names: Sequence[str], device: torch.device) -> Iterator[None]:
    """These parts on the device, for a while: there may be no room for all."""
    every = chain(model.named_parameters(remove_duplicate=False), model.named_buffers())
    lent = {tensor: tensor.device for name, tensor in every if any(within(name, owner) for owner in names)}
    # nothing is learnt from it, neither by layers that count what they see
    model.eval()
    for tensor in lent:
        tensor.data = tensor.data.to(device)
    try:
        yield
    finally:
        model.train()
        for tensor, home in lent.items():
            tensor.grad = None
            tensor.data = tensor.data.to(home)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
