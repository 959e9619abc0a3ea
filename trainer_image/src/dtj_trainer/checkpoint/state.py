"""Weights and optimizer state between memory, file and ranks. The only part of checkpoints that knows torch.

In a file everything is whole and goes by the names of the plain model's parameters, whatever the strategy: a checkpoint
fits any number of ranks.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from dtj_trainer.checkpoint.layout import MODEL, OPTIMIZER
from dtj_trainer.checkpoint.writer import Content
from dtj_trainer.distributed import World
from dtj_trainer.parallel.dtensor import whole
from dtj_trainer.parallel.holdings import Holdings

CPU = torch.device("cpu")

Weights = dict[str, Tensor]
Tree = dict[str, Any]


def contents(holdings: Holdings, optimizer: torch.optim.Optimizer, beside: Tree, world: World) -> list[Content]:
    """The files that hold them, and what is to be kept `beside` the optimizer's state, on rank 0; [] on the others.
    Every rank must call it, since each may hold a part."""
    weights = whole_weights(holdings, world)
    state = whole_state(holdings, optimizer, world)
    if world.rank != 0:
        return []
    moments = [tensor for entries in state.values() for tensor in entries.values()]
    return [
        Content(MODEL, _bytes(weights.values()), lambda output: output.write(safetensors.torch.save(weights))),
        Content(OPTIMIZER, _bytes(moments), lambda output: torch.save({"state": state, **beside}, output)),  # type: ignore[arg-type]
    ]


def whole_weights(holdings: Holdings, world: World) -> Weights:
    """All of them on rank 0, on the CPU; every rank must call it."""
    keep = world.rank in holdings.givers
    return world.gather({name: _whole(tensor, keep=keep) for name, tensor in holdings.tensors()}, holdings.givers)


def whole_state(holdings: Holdings, optimizer: torch.optim.Optimizer, world: World) -> dict[str, Weights]:
    """The optimizer's state by names of parameters, likewise."""
    keep = world.rank in holdings.givers
    flat: Weights = {}
    for name, entries in _entries(holdings, optimizer):
        flat |= {f"{name}/{key}": _whole(tensor, keep=keep) for key, tensor in entries.items()}
    found: dict[str, Weights] = {}
    for path, tensor in world.gather(flat, holdings.givers).items():
        name, _, key = path.rpartition("/")
        found.setdefault(name, {})[key] = tensor
    return found


def load_weights(folder: Path) -> Weights:
    """A checkpoint's weights, on the CPU."""
    weights: Weights = safetensors.torch.load_file(folder / MODEL)
    return weights


def load_optimizer(folder: Path) -> Tree:
    """A checkpoint's optimizer state, on the CPU."""
    state: Tree = torch.load(folder / OPTIMIZER, map_location=CPU, weights_only=True)
    return state


def share_weights(holdings: Holdings, weights: Weights | None, world: World) -> None:
    """Give every rank its part of the weights that rank 0 has."""
    mine: dict[str, list[Tensor]] = {}
    for name, tensor in holdings.values():
        mine.setdefault(name, []).append(tensor)
    with torch.no_grad():
        for name, value in _broadcast(weights, world):
            for tensor in mine.get(name, []):
                tensor.copy_(_part(value.to(tensor.dtype), tensor))


def differences(weights: Weights, holdings: Holdings) -> list[str]:
    """Names of what the model and the weights do not both have, or not in the same shape; [] where they match."""
    have, want = {name: tuple(tensor.shape) for name, tensor in weights.items()}, holdings.anatomy.shapes
    return sorted(name for name in have.keys() | want.keys() if have.get(name) != want.get(name))


def share_optimizer(
    holdings: Holdings, optimizer: torch.optim.Optimizer, state: dict[str, Weights] | None, world: World
) -> None:
    """Load into every rank its part of the state that rank 0 has."""
    flat: Weights | None = None
    if state is not None:
        flat = {f"{name}/{key}": tensor for name, entries in state.items() for key, tensor in entries.items()}
    parameters: dict[str, list[nn.Parameter]] = {}
    for name, parameter in holdings.parameters():
        parameters.setdefault(name, []).append(parameter)
    numbers = _numbers(optimizer)
    filled: dict[int, Weights] = {}
    for path, value in _broadcast(flat, world):
        name, _, key = path.rpartition("/")
        for parameter in parameters.get(name, []):
            part = _part(value, parameter) if value.shape == parameter.shape else value.clone()
            filled.setdefault(numbers[id(parameter)], {})[key] = part
    optimizer.load_state_dict({"state": filled, "param_groups": optimizer.state_dict()["param_groups"]})


def _broadcast(tensors: Weights | None, world: World) -> Iterator[tuple[str, Tensor]]:
    """Rank 0's, one after the other."""
    heads = world.from_rank_zero(lambda: {name: (each.shape, each.dtype) for name, each in (tensors or {}).items()})
    for name, (shape, dtype) in heads.items():
        value = tensors[name].to(CPU).contiguous() if tensors is not None else torch.empty(shape, dtype=dtype)
        yield name, world.broadcast(value)


def _entries(holdings: Holdings, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Weights]]:
    """The optimizer's tensors of each parameter, by its name; numbers would depend on who holds which."""
    state, numbers = optimizer.state_dict()["state"], _numbers(optimizer)
    for name, parameter in holdings.parameters():
        if (number := numbers[id(parameter)]) in state:
            yield name, {key: value for key, value in state[number].items() if isinstance(value, Tensor)}


def _numbers(optimizer: torch.optim.Optimizer) -> dict[int, int]:
    """By id of a parameter, its number in state_dict."""
    every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {id(parameter): number for number, parameter in enumerate(every)}


def _whole(tensor: Tensor, *, keep: bool) -> Tensor:
    """All of it, of which this rank may hold a part, on the CPU; nothing where it is not to keep it."""
    tensor = whole(tensor.detach())
    return tensor.to(CPU).contiguous() if keep else torch.empty(0)


def _part(value: Tensor, like: Tensor) -> Tensor:
    """What a rank that holds `like` holds of it."""
    if not hasattr(like, "full_tensor"):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    # every rank has the whole: nothing is sent
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
