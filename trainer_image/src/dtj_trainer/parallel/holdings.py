"""What one rank holds of a model, by the names of the plain model, whatever was done to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Anatomy:
    """What must be known of a model before it is taken apart.

    Attributes:
        parameters: how many numbers it learns.
        shapes: of what a checkpoint keeps, by name; of tied ones the first.
        aliases: of a parameter that has several names (tied weights), each name but the first -> the first.
        decayed: parameters that weight decay is for: matrices of linear layers, unless they are embeddings too.
    """

    parameters: int
    shapes: dict[str, tuple[int, ...]]
    aliases: dict[str, str]
    decayed: frozenset[str]


def anatomy(model: nn.Module) -> Anatomy:
    """Of a plain model, which may have no memory (meta)."""
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    aliases = {name: first[id(parameter)] for name, parameter in every if first[id(parameter)] != name}
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)}
    embedded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    decayed = frozenset(name for number, name in first.items() if number in linear - embedded)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in aliases}
    return Anatomy(sum(p.numel() for p in model.parameters()), shapes, aliases, decayed)


def tie(model: nn.Module, aliases: dict[str, str]) -> None:
    """Make one parameter again of those with several names that became several: what replaces parameters module by
    module (to_empty, parallelize_module) does not know of ties."""
    known = dict(model.named_parameters(remove_duplicate=False))
    for alias, name in aliases.items():
        if alias in known and name in known:
            owner, _, own = alias.rpartition(".")
            setattr(model.get_submodule(owner), own, known[name])


class Holdings:
    """One rank's part of a model.

    Args:
        modules: the model, or its stages on this rank.
        anatomy: of the plain model.
        givers: ranks that together hold everything, each once it has gathered what its own mesh shares.
    """

    def __init__(self, modules: Sequence[nn.Module], anatomy: Anatomy, givers: Sequence[int] = (0,)) -> None:
        self.modules, self.anatomy, self.givers = list(modules), anatomy, list(givers)

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """By name. Two stages on this rank may each have one of a name."""
        for module in self.modules:
            for name, parameter in module.named_parameters():
                yield self.anatomy.aliases.get(name, name), parameter

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and what else a checkpoint keeps, likewise."""
        for module in self.modules:
            seen: set[str] = set()
            for alias, tensor in module.state_dict().items():
                name = self.anatomy.aliases.get(alias, alias)
                if name not in seen:
                    seen.add(name)
                    yield name, tensor

    def values(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and all buffers, those too that a checkpoint leaves out since the model makes them itself."""
        yield from self.parameters()
        for module in self.modules:
            yield from module.named_buffers()

    def train(self, mode: bool) -> None:
        for module in self.modules:
            module.train(mode)
