"""The optimizer of a run, and one step of it."""

from collections.abc import Callable, Iterable

import dtj_api.training as api
import torch
from torch import Tensor, nn

from dtj_trainer.parallel.dtensor import local
from dtj_trainer.parallel.holdings import Holdings


def build(holdings: Holdings, config: api.Optimizer) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019) or SGD without momentum.

    Weight decay is for the matrices of linear layers: not for embeddings, norms and biases.
    """
    groups = _groups(holdings, config.weight_decay)
    if config.name == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)


class LossScale:
    """What losses are multiplied by so that small gradients do not vanish in fp16 (Micikevicius et al. 2018): doubled
    after so many good steps, halved by one whose gradients overflowed, which changes nothing. 1 for other formats.

    Attributes:
        moves: gradients are looked at in each step, and the scale follows.
        overflowed: those of the last step did; it was left out.
    """

    FIRST, LEAST, GROWTH_STEPS = 2.0**16, 2.0**-10, 2000

    def __init__(self, *, moves: bool) -> None:
        self.moves = moves
        self.value = self.FIRST if self.moves else 1.0
        self.overflowed = False
        self._good = 0

    def update(self, *, overflowed: bool) -> None:
        if not self.moves:
            return
        self.overflowed = overflowed
        self._good = 0 if overflowed else self._good + 1
        if overflowed:
            self.value /= 2
        elif self._good == self.GROWTH_STEPS:
            self.value, self._good = self.value * 2, 0

    @property
    def hopeless(self) -> bool:
        """No scale makes the gradients finite."""
        return self.value < self.LEAST

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps of it."""
        return {"value": self.value, "good": float(self._good)}

    def load(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint, which may be of a run in another format."""
        if self.moves and state["value"] != 1.0:
            self.value, self._good = state["value"], int(state["good"])


def step(
    optimizer: torch.optim.Optimizer, grad_clip: float | None, scale: LossScale, gradient_norm: Callable[[], Tensor]
) -> Tensor:
    """Clip, update, clear. Returns the global gradient norm before clipping, on the device: reading it is a sync.

    With a loss scale that moves it is read, and a step whose gradients overflowed is left out.
    """
    groups = [[p for p in group["params"] if p.grad is not None] for group in optimizer.param_groups]
    groups = [group for group in groups if group]
    if scale.moves:
        for group in groups:
            torch._foreach_div_([p.grad for p in group], scale.value)
    norm = gradient_norm()
    overflowed = scale.moves and not torch.isfinite(norm).item()
    if not overflowed:
        if grad_clip is not None:
            for group in groups:
                nn.utils.clip_grads_with_norm_(group, grad_clip, norm)
        optimizer.step()
    scale.update(overflowed=overflowed)
    optimizer.zero_grad(set_to_none=True)
    return torch.zeros_like(norm) if overflowed and not scale.hopeless else norm


def all_finite(parameters: Iterable[Tensor]) -> bool:
    """Whether every number that this rank holds is finite."""
    flags = [torch.isfinite(local(p)).all() for p in parameters]
    # with offload some are on the CPU, and what was gathered for an evaluation is not
    return bool(torch.stack([flag.to(flags[0].device) for flag in flags]).all().item())


def _groups(holdings: Holdings, weight_decay: float) -> list[dict[str, object]]:
    """Parameters with and without decay; apart on each mesh, since torch updates no others together."""
    groups: dict[tuple[bool, object], list[nn.Parameter]] = {}
    for name, parameter in holdings.parameters():
        decays = name in holdings.anatomy.decayed
        groups.setdefault((decays, getattr(parameter, "device_mesh", None)), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": weight_decay if decays else 0.0}
        for (decays, _), parameters in groups.items()
    ]
