"""The global norm of gradients that are spread over ranks in several ways, or not at all."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from dtj_trainer.parallel.dtensor import local, split_over


def squared_norm(gradients: Iterable[Tensor], device: torch.device) -> Tensor:
    """The sum of all squares, in fp32 at least; each rank of a mesh that the gradients lie on must call it.

    One exchange for each dimension of the mesh: torch's own has one for each way that tensors are spread.
    """
    alike: dict[frozenset[str], list[Tensor]] = {}
    groups: dict[str, dist.ProcessGroup] = {}
    for gradient in gradients:
        over = split_over(gradient)
        groups |= over
        alike.setdefault(frozenset(over), []).append(local(gradient))
    sums = {names: _squares(parts, device) for names, parts in alike.items()}
    for name, group in sorted(groups.items()):
        spread = [names for names in sums if name in names]
        together = torch.stack([sums.pop(names) for names in spread])
        dist.all_reduce(together, group=group)
        for names, total in zip(spread, together, strict=True):
            rest = names - {name}
            sums[rest] = sums[rest] + total if rest in sums else total
    return sums.get(frozenset(), torch.zeros((), device=device))


def _squares(tensors: list[Tensor], device: torch.device) -> Tensor:
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return torch.stack(torch._foreach_norm(tensors, 2, dtype)).square().sum().to(device)
