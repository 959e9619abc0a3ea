"""Weights and optimizer state between memory, file and ranks. The only part of checkpoints that knows torch."""

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from dtj_trainer.checkpoint.layout import MODEL, OPTIMIZER
from dtj_trainer.checkpoint.writer import Content
from dtj_trainer.distributed import World

CPU = torch.device("cpu")


def contents(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Content]:
    """The files that hold them."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    state = optimizer.state_dict()
    return [
        Content(MODEL, lambda output: output.write(safetensors.torch.save(weights))),
        Content(OPTIMIZER, lambda output: torch.save(state, output)),  # type: ignore[arg-type]
    ]


def size(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Bytes of all tensors: what a checkpoint takes, but for its headers."""
    tensors = [*model.state_dict().values(), *_tensors(optimizer.state_dict())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def load_model(folder: Path, model: nn.Module) -> None:
    """Put a checkpoint's weights into a model of its shape."""
    model.load_state_dict(safetensors.torch.load_file(folder / MODEL))


def load_optimizer(folder: Path) -> dict[str, Any]:
    """The state_dict in a checkpoint, on the CPU."""
    state: dict[str, Any] = torch.load(folder / OPTIMIZER, map_location=CPU, weights_only=True)
    return state


def share_model(model: nn.Module, world: World) -> None:
    """Give every rank rank 0's weights."""
    if world.size > 1:
        for tensor in model.state_dict().values():
            received = world.broadcast(tensor.detach().to(CPU, copy=True))
            tensor.copy_(received)


def share_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any] | None, world: World) -> None:
    """Load into every rank the state_dict that rank 0 has: its skeleton as an object, then tensor by tensor."""
    skeleton = world.from_rank_zero(lambda: _hollow(state))
    optimizer.load_state_dict(_fill(skeleton, iter(_tensors(state)) if state is not None else None, world))


def _tensors(tree: Any) -> list[Tensor]:
    """Tensors of nested dicts and lists, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [tensor for child in children for tensor in _tensors(child)]


def _hollow(tree: Any) -> Any:
    """The same tree with tensors that have a shape but no values."""
    if isinstance(tree, Tensor):
        return tree.to("meta")
    if isinstance(tree, dict):
        return {key: _hollow(value) for key, value in tree.items()}
    return [_hollow(value) for value in tree] if isinstance(tree, list) else tree


def _fill(tree: Any, values: Any, world: World) -> Any:
    if isinstance(tree, Tensor):
        mine = next(values) if values is not None else torch.empty_like(tree, device=CPU)
        return world.broadcast(mine.contiguous())
    if isinstance(tree, dict):
        return {key: _fill(value, values, world) for key, value in tree.items()}
    return [_fill(value, values, world) for value in tree] if isinstance(tree, list) else tree
