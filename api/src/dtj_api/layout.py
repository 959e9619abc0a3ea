"""The mesh of ranks that a strategy comes to in a world of some size. Pure: for admission, status and trainer alike.

Ranks are numbered with `tensor` innermost, then `shard`, `replicate` and `pipeline`: who exchanges most are neighbours,
in one pod where they fit.
"""

import math
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
        shard: ranks that one copy, or what of it one stage and one part of its layers are, is spread over.
        tensor: ranks that single layers are split between.
        pipeline: ranks that blocks are split between.
    """

    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1

    def sizes(self) -> dict[str, int]:
        """In the order of ranks: the first dimension is outermost."""
        return {name: getattr(self, name) for name in DIMENSIONS}

    @property
    def world_size(self) -> int:
        return self.pipeline * self.ranks_per_stage

    @property
    def ranks_per_stage(self) -> int:
        """Ranks that compute the same blocks."""
        return self.replicate * self.shard * self.tensor

    @property
    def data_ranks(self) -> int:
        """Ranks, or groups of them, that get samples of their own."""
        return self.replicate * self.shard

    def data_rank(self, rank: int) -> int:
        """Which part of each batch is this rank's."""
        return rank // self.tensor % self.data_ranks

    def counts(self, rank: int) -> bool:
        """Whether it is the first of those that get the same samples."""
        return rank < self.ranks_per_stage and rank % self.tensor == 0

    def stage_rank(self, rank: int) -> int:
        """Its rank in its pipeline."""
        return rank // self.ranks_per_stage


DIMENSIONS = ("pipeline", "replicate", "shard", "tensor")
# dimensions of a strategy; one that has a single one takes all ranks
_OF = {
    "ddp": ("replicate",),
    "fsdp": ("shard",),
    "hsdp": ("replicate", "shard"),
    "tensor": ("tensor",),
    "pipeline": ("pipeline",),
    "hybrid": DIMENSIONS,
}


def layout(training: Training, ranks: Ranks) -> Layout:
    """What a validated `training` comes to. Ranks of a hybrid that nothing is said of shard."""
    world, mesh = ranks.world, training.mesh
    dimensions = _OF[training.strategy]
    if len(dimensions) == 1:
        return Layout(**{dimensions[0]: world})
    tensor, pipeline = mesh.tensor or 1, mesh.pipeline or 1
    data = world // (tensor * pipeline)
    rest = data if training.strategy == "hybrid" else ranks.local
    shard = mesh.shard or (data // mesh.replicate if mesh.replicate else rest)
    return Layout(data // shard, shard, tensor, pipeline)


def layout_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    """Why there is no such mesh, or what was given for another."""
    wrong = list(_mesh_errors(training, ranks, f"{path}.mesh"))
    yield from wrong
    if not wrong and training.strategy in ("fsdp", "hsdp", "hybrid"):
        yield from _sharding_errors(training, ranks, f"{path}.fsdp")


def _mesh_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    given = {
        name: size for name in ("replicate", "shard", "tensor", "pipeline") if (size := getattr(training.mesh, name))
    }
    strategy, world, dimensions = training.strategy, ranks.world, _OF[training.strategy]
    for name, size in given.items():
        if name not in dimensions and size != 1:
            other = "hsdp" if {name, *dimensions} <= set(_OF["hsdp"]) else "hybrid"
            too = f" and {strategy} {world // size}" if strategy in ("tensor", "pipeline") else ""
            remedy = f"remove it{f', or set strategy: {other} for {name} {size}{too}' if world % size == 0 else ''}"
            yield FieldError(f"{path}.{name}", f"strategy {strategy} has no such dimension", remedy)
            return
    if len(dimensions) > 1:
        yield from _product_errors(
            {name: size for name, size in given.items() if name in dimensions}, training, ranks, path
        )
    elif given.get(dimensions[0], world) != world:
        problem = f"is {given[dimensions[0]]}, but the job has {_ranks(world)}"
        other = ", or set strategy: hybrid" if strategy in ("tensor", "pipeline") else ""
        remedy = f"remove it: strategy {strategy} takes all of them{other}"
        yield FieldError(f"{path}.{dimensions[0]}", problem, remedy)


def _product_errors(given: dict[str, int], training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    """Of a strategy with several dimensions."""
    world = ranks.world
    if world == 1 and not given:
        yield FieldError(path, "there is 1 rank, and nothing to lay out", "set strategy: ddp, or add workers")
        return
    if training.strategy == "hybrid" and not {"tensor", "pipeline"} & given.keys():
        problem, remedy = "names neither tensor nor pipeline", "name one, or set strategy: hsdp, or fsdp"
        yield FieldError(path, problem, remedy)
        return
    if not given and ranks.local in (1, world):
        problem = "names neither replicate nor shard, and pods of one process, or a single pod, suggest none"
        yield FieldError(path, problem, f"set shard to a divisor of {world}, the number of ranks")
    product = math.prod(given.values())
    settled = {"replicate", "shard"} <= given.keys()
    if world % product or (settled and product != world):
        words = " x ".join(f"{name} {size}" for name, size in given.items())
        does_not = "is not" if settled else "does not divide"
        yield FieldError(path, f"{words} {does_not} {world}, the number of ranks", "change it, or the number of ranks")


def _sharding_errors(training: Training, ranks: Ranks, path: str) -> Iterator[FieldError]:
    """Of a mesh that there is."""
    to, shard = training.fsdp.reshard_to, layout(training, ranks).shard
    if training.fsdp.cpu_offload and layout(training, ranks).data_ranks == 1:
        words = "needs 2 ranks that share a part of the model at least, and there is 1"
        yield FieldError(f"{path}.cpuOffload", words, "remove it, or add workers")
    if to is None:
        return
    if training.fsdp.reshard_after_forward is False:
        yield FieldError(f"{path}.reshardTo", "is set, but reshardAfterForward is false", "remove one of them")
    if to >= shard or shard % to:
        proper = [str(size) for size in range(2, shard) if shard % size == 0]
        remedy = f"choose one of: {', '.join(proper[:8])}" if proper else "remove it: there is none"
        yield FieldError(f"{path}.reshardTo", f"{to} is no proper divisor of {shard}, the ranks of one copy", remedy)


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
