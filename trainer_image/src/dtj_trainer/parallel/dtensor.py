"""Tensors of which a rank may hold a part only."""

from collections.abc import Iterable
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn


def whole(tensor: Tensor) -> Tensor:
    """All of it; every rank of its mesh must call it. A plain tensor is whole."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def local(tensor: Tensor) -> Tensor:
    """This rank's part, in place: what is done to it is done to the tensor."""
    mine = tensor.detach()
    part: Tensor = getattr(mine, "to_local", lambda: mine)()
    return part


def place_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Spread each gradient as its parameter is: layers leave some whole, or as sums that are yet to be taken."""
    for parameter in parameters:
        gradient: Any = parameter.grad
        wanted = getattr(parameter, "placements", None)
        if gradient is not None and wanted is not None and gradient.placements != wanted:
            parameter.grad = gradient.redistribute(placements=wanted)


def split_over(tensor: Tensor) -> dict[str, dist.ProcessGroup]:
    """Dimensions of its mesh along which ranks hold different parts, each with its group."""
    mesh = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return {}
    placements = zip(mesh.mesh_dim_names, tensor.placements, strict=True)  # type: ignore[attr-defined]
    return {name: mesh.get_group(name) for name, placement in placements if not placement.is_replicate()}
