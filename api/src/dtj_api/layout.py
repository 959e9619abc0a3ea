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
        wrong = list(_hybrid_errors(training, ranks, f"{path}.mesh"))
        yield from wrong
        if wrong:
            return
    else:
        spread, single = ("replicate", "shard") if strategy == "ddp" else ("shard", "replicate")
        over, other = getattr(mesh, spread), getattr(mesh, single)
        if other not in (None, 1):
            fits = world % other == 0
            remedy = f"remove it{f', or set strategy: hsdp for {single} {other}' if fits else ''}"
            yield FieldError(f"{path}.mesh.{single}", f"strategy {strategy} has no such dimension", remedy)
            return
        if over not in (None, world):
            problem = f"is {over}, but the job has {_ranks(world)}"
            yield FieldError(f"{path}.mesh.{spread}", problem, f"remove it: strategy {strategy} takes all of them")
            return
    if strategy != "ddp":
        yield from _sharding_errors(training, ranks, f"{path}.fsdp")


def _hybrid_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    mesh, world = training.mesh, ranks.world
    if mesh.replicate is None and mesh.shard is None:
        if world == 1:
            yield FieldError(path, "there is 1 rank, and nothing to lay out", "set strategy: ddp, or add workers")
        elif ranks.local in (1, world):
            problem = "names neither replicate nor shard, and pods of one process, or a single pod, suggest none"
            yield FieldError(path, problem, f"set shard to a divisor of {world}, the number of ranks")
        return
    given = [(name, size) for name in ("replicate", "shard") if (size := getattr(mesh, name)) is not None]
    product = (mesh.replicate or 1) * (mesh.shard or 1)
    if world % product or (len(given) == 2 and product != world):
        words = " x ".join(f"{name} {size}" for name, size in given)
        does_not = "is not" if len(given) == 2 else "does not divide"
        yield FieldError(path, f"{words} {does_not} {world}, the number of ranks", "change it, or the number of ranks")


def _sharding_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    """Of a mesh that there is."""
    to, shard = training.fsdp.reshard_to, layout(training, ranks).shard
    if training.fsdp.cpu_offload and ranks.world == 1:
        yield FieldError(f"{path}.cpuOffload", "needs 2 ranks at least, and there is 1", "remove it, or add workers")
    if to is None:
        return
    if not training.fsdp.reshard_after_forward:
        yield FieldError(f"{path}.reshardTo", "is set, but reshardAfterForward is false", "remove one of them")
    if to >= shard or shard % to:
        proper = [str(size) for size in range(2, shard) if shard % size == 0]
        remedy = f"choose one of: {', '.join(proper[:8])}" if proper else "remove it: there is none"
        yield FieldError(f"{path}.reshardTo", f"{to} is no proper divisor of {shard}, the ranks of one copy", remedy)


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
