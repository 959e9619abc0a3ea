"""Weights and optimizer state between memory, file and ranks. The only part of checkpoints that knows torch.

In a file everything is whole and goes by the names of the plain model's parameters, whatever the strategy: a checkpoint
fits any number of ranks.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from dtj_trainer.checkpoint.layout import MODEL, OPTIMIZER
from dtj_trainer.checkpoint.writer import Content
from dtj_trainer.distributed import World

CPU = torch.device("cpu")

Weights = dict[str, Tensor]
Tree = dict[str, Any]


def contents(model: nn.Module, optimizer: torch.optim.Optimizer, beside: Tree, world: World) -> list[Content]:
    """The files that hold them, and what is to be kept `beside` the optimizer's state, on rank 0; [] on the others.
    Every rank must call it, since each may hold a part."""
    keep = world.rank == 0
    weights = whole_weights(model, world)
    state = _map(named(model, optimizer), lambda tensor: _whole(tensor, keep=keep)) | beside
    if not keep:
        return []
    return [
        Content(MODEL, lambda output: output.write(safetensors.torch.save(weights))),
        Content(OPTIMIZER, lambda output: torch.save(state, output)),  # type: ignore[arg-type]
    ]


def whole_weights(model: nn.Module, world: World) -> Weights:
    """All of them on rank 0, on the CPU; every rank must call it."""
    return {name: _whole(tensor, keep=world.rank == 0) for name, tensor in model.state_dict().items()}


def size(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of all tensors, whole: what a checkpoint takes, but for its headers."""
    tensors = [*model.state_dict().values(), *_tensors(optimizer.state_dict())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def load_weights(folder: Path) -> Weights:
    """A checkpoint's weights, on the CPU."""
    weights: Weights = safetensors.torch.load_file(folder / MODEL)
    return weights


def load_optimizer(folder: Path) -> Tree:
    """A checkpoint's optimizer state, on the CPU."""
    state: Tree = torch.load(folder / OPTIMIZER, map_location=CPU, weights_only=True)
    return state


def share_weights(model: nn.Module, weights: Weights | None, world: World) -> None:
    """Give every rank its part of the weights that rank 0 has."""
    for name, mine in model.state_dict().items():
        whole = weights[name].contiguous() if weights is not None else torch.empty(mine.shape, dtype=mine.dtype)
        mine.copy_(_part(world.broadcast(whole.to(mine.dtype)), mine))


def share_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, state: Tree | None, world: World) -> Tree:
    """Load into every rank its part of the state that rank 0 has: its skeleton as an object, then tensor by tensor.

    Returns:
        the skeleton, with what was kept beside.
    """
    skeleton: Tree = world.from_rank_zero(lambda: _map(state, lambda tensor: tensor.to("meta")))
    values = iter(_tensors(state)) if state is not None else None
    parameters = dict(model.named_parameters())
    numbers = {name: number for number, name in enumerate(_names(model, optimizer))}

    def fill(parameter: Tensor, empty: Tensor) -> Tensor:
        whole = next(values) if values is not None else torch.empty_like(empty, device=CPU)
        whole = world.broadcast(whole.contiguous())
        return _part(whole, parameter) if whole.shape == parameter.shape else whole

    filled = {
        numbers[name]: _map(entries, partial(fill, parameters[name])) for name, entries in skeleton["state"].items()
    }
    groups = [{**group, "params": [numbers[name] for name in group["params"]]} for group in skeleton["param_groups"]]
    optimizer.load_state_dict({"state": filled, "param_groups": groups})
    return skeleton


def named(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tree:
    """The optimizer's state_dict by names of parameters instead of numbers, which depend on who holds which."""
    state, names = optimizer.state_dict(), _names(model, optimizer)
    groups = [{**group, "params": [names[number] for number in group["params"]]} for group in state["param_groups"]]
    return {"state": {names[number]: entries for number, entries in state["state"].items()}, "param_groups": groups}


def _names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Of the optimizer's parameters, in its order."""
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    return [known[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]


def _whole(tensor: Tensor, *, keep: bool) -> Tensor:
    """All of it, of which this rank may hold a part, on the CPU; nothing where it is not to keep it."""
    tensor = tensor.detach()
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    return tensor.to(CPU).contiguous() if keep else torch.empty(0)


def _part(whole: Tensor, like: Tensor) -> Tensor:
    """What a rank that holds `like` holds of it."""
    if not hasattr(like, "full_tensor"):
        return whole
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    # every rank has the whole: nothing is sent
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def _tensors(tree: Any) -> list[Tensor]:
    """Tensors of nested dicts and lists, in order."""
    found: list[Tensor] = []
    _map(tree, lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found


def _map(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nested dicts and lists with other tensors."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: _map(value, change) for key, value in tree.items()}
    return [_map(value, change) for value in tree] if isinstance(tree, (list, tuple)) else tree
