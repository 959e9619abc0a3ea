"""The mesh of ranks that a strategy comes to in a world of some size. Pure: for admission, status and trainer alike.

Ranks are numbered with `shard` innermost: shards of one copy of the model are neighbours, in one pod where they fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dtj_api.fields import FieldError
from dtj_api.training import Training


@dataclass(frozen=True)
class Ranks:
    """How many there are, and how many of them in each pod."""

    world: int = 1
    local: int = 1


@dataclass(frozen=True)
class Layout:
    """Ranks along each dimension of the mesh.

    Attributes:
        replicate: copies of the model.
        shard: ranks that one copy is spread over.
    """

    replicate: int = 1
    shard: int = 1

    @property
    def world_size(self) -> int:
        return self.replicate * self.shard

    @property
    def data_ranks(self) -> int:
        """Ranks, or groups of them, that get samples of their own."""
        return self.replicate * self.shard

    def data_rank(self, rank: int) -> int:
        """Which part of each batch is this rank's."""
        return rank


def layout(training: Training, ranks: Ranks) -> Layout:
    """What a validated `training` comes to."""
    world = ranks.world
    if training.strategy == "ddp":
        return Layout(replicate=world)
    if training.strategy == "fsdp":
        return Layout(shard=world)
    mesh = training.mesh
    shard = mesh.shard or (world // mesh.replicate if mesh.replicate else ranks.local)
    return Layout(world // shard, shard)


def layout_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    """Why there is no such mesh, or what was given for another."""
    mesh, strategy, world = training.mesh, training.strategy, ranks.world
    if strategy == "hsdp":
        yield from _hybrid_errors(training, ranks, f"{path}.mesh")
    else:
        spread, single = ("replicate", "shard") if strategy == "ddp" else ("shard", "replicate")
        over, other = getattr(mesh, spread), getattr(mesh, single)
        if other not in (None, 1):
            remedy = f"remove it, or set strategy hsdp for {other} x {world // other or 1}"
            yield FieldError(f"{path}.mesh.{single}", f"strategy {strategy} has no such dimension", remedy)
        if over not in (None, world):
            problem = f"is {over}, but the job has {_ranks(world)}"
            yield FieldError(f"{path}.mesh.{spread}", problem, f"remove it: strategy {strategy} takes all of them")
    yield from _reshard_errors(training, ranks, path)


def _hybrid_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    mesh, world = training.mesh, ranks.world
    if mesh.replicate is None and mesh.shard is None:
        if ranks.local in (1, world):
            problem = "names neither replicate nor shard, and pods of one process, or a single pod, suggest none"
            yield FieldError(path, problem, f"set shard to a divisor of {world}, the number of ranks")
        return
    given = [(name, size) for name in ("replicate", "shard") if (size := getattr(mesh, name)) is not None]
    product = (mesh.replicate or 1) * (mesh.shard or 1)
    if world % product or (len(given) == 2 and product != world):
        words = " x ".join(f"{name} {size}" for name, size in given)
        does_not = "is not" if len(given) == 2 else "does not divide"
        yield FieldError(path, f"{words} {does_not} {world}, the number of ranks", "change it, or the number of ranks")


def _reshard_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    to = training.fsdp.reshard_to
    if to is None or training.strategy == "ddp":
        return
    if not training.fsdp.reshard_after_forward:
        yield FieldError(f"{path}.fsdp.reshardTo", "is set, but reshardAfterForward is false", "remove one of them")
    shard = layout(training, ranks).shard
    if to >= shard or shard % to:
        problem = f"{to} is no proper divisor of {shard}, the ranks that hold one copy"
        yield FieldError(f"{path}.fsdp.reshardTo", problem, "choose one, such as the number of ranks in a pod")


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
