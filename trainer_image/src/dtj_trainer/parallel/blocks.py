"""The repeated parts of a model, by which it is sharded and recomputed. Any nn.Module has some."""

from collections.abc import Iterator

from torch import nn


def blocks(model: nn.Module) -> list[nn.Module]:
    """What is in the list (nn.ModuleList or nn.Sequential) that holds the most parameters; the model itself where there
    is no list."""
    lists = [module for module in model.modules() if isinstance(module, (nn.ModuleList, nn.Sequential))]
    if not lists:
        return [model]
    largest = max(lists, key=parameters)
    return [block for block in largest.children() if parameters(block)] or [model]


def of_size(model: nn.Module, least: int) -> Iterator[nn.Module]:
    """The smallest modules in blocks, or blocks, that hold `least` parameters of their own or of parts that are too
    small themselves. Not those outside: their weights may be used by the model itself, as tied embeddings are."""
    for block in blocks(model):
        yield from _of_size(block, least, [])


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _of_size(module: nn.Module, least: int, left: list[int]) -> Iterator[nn.Module]:
    """Adds to `left` what no part of the module takes."""
    mine: list[int] = [p.numel() for p in module.parameters(recurse=False)]
    for child in module.children():
        yield from _of_size(child, least, mine)
    # lists are never called, so nothing could gather their parameters
    if sum(mine) >= least and not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        yield module
    else:
        left.extend(mine)
