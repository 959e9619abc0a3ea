"""Activations handed from stage to stage without gradients: the forward pass of an evaluation.

torch's schedules have one too, but it fails where a rank has neighbouring stages (V-shaped ones, torch 2.15). All goes
over the CPU: ranks that send to each other in both directions would wait for each other in one NCCL communicator.
"""

from collections import deque
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class Relay:
    """This rank's ends of it. Whoever calls it does so in the order of stages, then of microbatches, on every rank.

    Args:
        owners: of each stage, the rank that computes it, for this rank's pipeline.
        group: of all ranks, on the CPU.
    """

    def __init__(self, owners: Sequence[int], group: dist.ProcessGroup, device: torch.device) -> None:
        self._owners, self._group, self._device = owners, group, device
        self._mine = dist.get_rank()
        self._here: deque[Tensor] = deque()
        self._forms: dict[int, tuple[torch.Size, torch.dtype]] = {}
        self._sent: list[tuple[dist.Work | None, Tensor]] = []

    @property
    def stages(self) -> int:
        """Of the whole pipeline."""
        return len(self._owners)

    def give(self, stage: int, x: Tensor) -> None:
        """To that stage, wherever it is."""
        to = self._owners[stage]
        if to == self._mine:
            self._here.append(x)
            return
        if stage not in self._forms:
            self._forms[stage] = (x.shape, x.dtype)
            dist.send_object_list([self._forms[stage]], dst=to, group=self._group)
        # kept until it has left
        whole = x.cpu().contiguous()
        self._sent.append((dist.isend(whole, dst=to, group=self._group), whole))

    def take(self, stage: int) -> Tensor:
        """What was given to that stage, which this rank has."""
        source = self._owners[stage - 1]
        if source == self._mine:
            return self._here.popleft()
        if stage not in self._forms:
            form: list[tuple[torch.Size, torch.dtype]] = [(torch.Size(), torch.float32)]
            dist.recv_object_list(form, src=source, group=self._group)
            self._forms[stage] = form[0]
        shape, dtype = self._forms[stage]
        x = torch.empty(shape, dtype=dtype)
        dist.recv(x, src=source, group=self._group)
        return x.to(self._device)

    def finish(self) -> None:
        """Wait until all is delivered."""
        for work, _ in self._sent:
            if work is not None:
                work.wait()
        self._sent.clear()
