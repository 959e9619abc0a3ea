"""Pipeline parallelism: each rank computes some stages of the model, and microbatches go through them one after the
other (Huang et al. 2019, GPipe; Narayanan et al. 2021, Megatron-LM; Qi et al. 2024, zero bubble)."""

from collections.abc import Callable, Collection, Sequence

import torch
import torch.distributed as dist
from dtj_api.partition import SCHEDULES
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

from dtj_trainer.models import loss, summed_loss
from dtj_trainer.parallel.dtensor import local, place_gradients, whole
from dtj_trainer.parallel.holdings import Anatomy, Holdings
from dtj_trainer.parallel.norm import squared_norm
from dtj_trainer.parallel.relay import Relay
from dtj_trainer.parallel.strategy import Microbatch, Strategy


class Pipeline(Strategy):
    """The strategy `pipeline`, and products with others: what is done to each stage is done before.

    Args:
        stages: of this rank, by number.
        schedule: of the manifest's names.
        microbatches: that a pass is split into.
        relay: between all stages.
        ties: weights that several stages use.
    """

    even = whole_batches = True

    def __init__(
        self,
        stages: dict[int, nn.Module],
        holdings: Holdings,
        *,
        schedule: str,
        microbatches: int,
        mesh: DeviceMesh,
        relay: Relay,
        ties: "Ties",
        autocast: torch.dtype | None,
        device: torch.device,
        split_classes: bool,
    ) -> None:
        first = next(iter(stages.values()))
        super().__init__(first, holdings, device, autocast, split_classes=split_classes)
        self._group, self._relay, self._ties = mesh["pipeline"].get_group(), relay, ties
        self._stages, self._count, self._microbatches = stages, relay.stages, microbatches
        self.answers = self._count - 1 in stages
        # of a microbatch's loss, for all passes
        self._weight = 1.0
        if autocast is not None:
            for module in stages.values():
                module.forward = self._in_format(module.forward)
        parts = [
            PipelineStage(module, number, self._count, device, group=self._group) for number, module in stages.items()
        ]
        kind = get_schedule_class(SCHEDULES[schedule].torch_name)
        given = parts[0] if issubclass(kind, PipelineScheduleSingle) else parts
        self._schedule = kind(given, microbatches, loss_fn=self._loss, scale_grads=False)

    def forward_backward(self, microbatches: Sequence[Microbatch], scale: float = 1.0) -> Tensor:
        self._weight = scale / (len(microbatches) * self._microbatches)
        total = torch.zeros((), device=self._device)
        for inputs, targets in microbatches:
            losses: list[Tensor] = []
            with self.loss_scope():
                given = (inputs,) if 0 in self._stages else ()
                try:
                    self._schedule.step(*given, target=targets if self.answers else None, losses=losses)
                except RuntimeError as error:
                    raise _cause(error) from None
            total += sum(whole(each.detach()) for each in losses)
        place_gradients(parameter for _, parameter in self.holdings.parameters())
        self._ties.sum_gradients()
        return total / scale

    def summed_loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Microbatches through the stages, one after the other; each rank's first stage first."""
        total = torch.zeros((), device=self._device)
        pieces, wanted = inputs.chunk(self._microbatches), targets.chunk(self._microbatches)
        with torch.no_grad(), self.loss_scope():
            for number, module in sorted(self._stages.items()):
                for piece, want in zip(pieces, wanted, strict=True):
                    answer = module(piece if number == 0 else self._relay.take(number))
                    if number < self._count - 1:
                        self._relay.give(number + 1, answer)
                        continue
                    with self.formats():
                        total += whole(summed_loss(answer, want))
        self._relay.finish()
        return total

    def gradient_norm(self) -> Tensor:
        """As seen by every stage; tied weights count once."""
        own = [p.grad for p in self._ties.counted() if p.grad is not None]
        squares = squared_norm(own, self._device)
        dist.all_reduce(squares, group=self._group)
        return squares.sqrt()

    def _in_format(self, forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def formatted(x: Tensor) -> Tensor:
            with self.formats():
                return forward(x)

        return formatted

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        with self.formats():
            return loss(logits, targets) * self._weight


def _cause(error: BaseException) -> BaseException:
    """What torch's stages wrap: a lost peer and a full memory are known by their own types and words."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


class Ties:
    """Weights that several stages use: each stage has its own, whose gradients are summed, so that they stay equal.

    Args:
        stages: of this rank, by number.
        names: of the parameters of each stage of the model; tied ones have one name.
        owners: of each stage of the model, its rank in the pipeline.
        columns: ranks of each pipeline, by their rank in it; every rank must know all.
    """

    def __init__(
        self,
        stages: dict[int, nn.Module],
        anatomy: Anatomy,
        names: Sequence[Collection[str]],
        owners: Sequence[int],
        columns: Sequence[Sequence[int]],
    ) -> None:
        users = {name: [i for i, held in enumerate(names) if name in held] for held in names for name in held}
        mine = [
            (number, *each) for number, module in stages.items() for each in Holdings([module], anatomy).parameters()
        ]
        self._counted = [parameter for number, name, parameter in mine if users[name][0] == number]
        self._shared: list[tuple[list[nn.Parameter], dist.ProcessGroup | None]] = []
        groups: dict[frozenset[int], dist.ProcessGroup | None] = {}
        # in the same order on every rank
        for name, numbers in sorted(users.items()):
            together = frozenset(owners[number] for number in numbers)
            if len(numbers) == 1:
                continue
            if together not in groups:
                groups[together] = _group(together, columns)
            if copies := [parameter for _, own, parameter in mine if own == name]:
                self._shared.append((copies, groups[together]))

    def counted(self) -> list[nn.Parameter]:
        """This rank's parameters, but those that an earlier stage counts."""
        return self._counted

    def sum_gradients(self) -> None:
        for copies, group in self._shared:
            gradients = [local(parameter.grad) for parameter in copies if parameter.grad is not None]
            if not gradients:  # frozen
                continue
            total = torch.stack(gradients).sum(0)
            if group is not None:
                dist.all_reduce(total, group=group)
            for gradient in gradients:
                gradient.copy_(total)


def _group(together: frozenset[int], columns: Sequence[Sequence[int]]) -> dist.ProcessGroup | None:
    """Of the ranks at these places of this rank's column; None where it is one rank, or this rank is not at one."""
    mine = None
    for column in columns if len(together) > 1 else ():
        ranks = [column[place] for place in sorted(together)]
        group = dist.new_group(ranks)
        if isinstance(group, dist.ProcessGroup):
            mine = group
    return mine
