"""What is compared with one process: strategies, worlds, and what goes with each. A bar is the largest difference."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.trainer.gang import Fields

# by number format: of each loss, of each gradient norm (relative), and of each parameter after the last step
EXACT = (1e-12, 1e-12, 1e-12)
SINGLE = (2e-6, 1e-5, 1e-4)
HALF = (5e-3, 2e-2, 3e-2)


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        name: for the table.
        training: fields of spec.training, beside those of every case.
        world, local: ranks, and how many of them in each pod.
        double: all numbers are float64, so that only mistakes differ.
        bars: on losses, gradient norms and parameters.
        reference: what the one process has of `training` too.
    """

    name: str
    training: Fields
    world: int = 2
    local: int = 1
    double: bool = True
    bars: tuple[float, float, float] = EXACT
    reference: Fields = field(default_factory=dict)


CLIP: Fields = {"optimizer": {"learningRate": 0.003, "gradClip": 0.5}}


def accumulation(parts: int) -> Fields:
    return {"batch": {"global": 24, "accumulation": parts}}


def recompute(mode: str) -> Fields:
    return {"activationCheckpointing": mode}


def ddp() -> Iterator[Case]:
    for world in (1, 2, 3, 4, 8):
        yield Case("ddp", {}, world)
    yield Case("ddp, fp32", {}, 4, double=False, bars=SINGLE)
    yield Case("ddp, buckets of 1 MB", {"ddp": {"bucketMb": 1}})
    yield Case("ddp, static graph", {"ddp": {"staticGraph": True}, **recompute("full")})
    yield Case("ddp, unused parameters looked for", {"ddp": {"findUnusedParameters": True}, **accumulation(2)})
    yield Case("ddp, gradients beside buckets", {"ddp": {"gradientAsBucketView": False}, **accumulation(2)})
    yield from _with_all({}, "ddp")
    everything = {"ddp": {"compression": "topk", "compressionRatio": 1}}
    yield Case("ddp, topk of all entries", {**everything, **accumulation(2)}, 3)
    # rounded to 11 and 8 bits on the way
    yield Case("ddp, exchanged in fp16", {"ddp": {"compression": "fp16"}}, bars=(1e-3, 5e-3, 1e-2))
    yield Case("ddp, exchanged in bf16", {"ddp": {"compression": "bf16"}}, bars=(1e-3, 5e-3, 1e-2))
    lossy = {"ddp": {"compression": "powersgd", "compressionRank": 16, "compressionWarmupSteps": 2}}
    yield Case("ddp, powersgd of rank 16", lossy, bars=(2e-2, 5e-2, 1e-1))
    # autocast: each product of matrices is rounded to 8 bits; the reference does the same
    half = {"precision": {"compute": "bf16"}}
    yield Case("ddp, bf16", half, double=False, bars=HALF, reference=half)
    whole = {"precision": {"params": "bf16", "compute": "bf16"}}
    yield Case("ddp, bf16 throughout", whole, double=False, bars=(5e-3, 5e-2, 3e-2), reference=whole)
    single = {"precision": {"compute": "fp16"}}
    yield Case("ddp, fp16", single, double=False, bars=(2e-4, 2e-3, 1e-2), reference=single)


def fsdp() -> Iterator[Case]:
    sharded: Fields = {"strategy": "fsdp"}
    for world in (1, 2, 3, 4, 8):
        yield Case("fsdp", sharded, world)
    yield Case("fsdp, fp32", sharded, 4, double=False, bars=SINGLE)
    for name, settings in {
        "parameters kept after forward": {"reshardAfterForward": False},
        "wrapped by size": {"wrap": "size", "minParameters": 3000},
        "one shard for all": {"wrap": "size", "minParameters": 10**9},
        "in the CPU's memory": {"cpuOffload": True},
        "gathered ahead": {"forwardPrefetch": 1, "backwardPrefetch": 2},
    }.items():
        yield Case(f"fsdp, {name}", {**sharded, "fsdp": settings})
    yield Case("fsdp, resharded to 2", {**sharded, "fsdp": {"reshardTo": 2}}, 4)
    yield from _with_all(sharded, "fsdp")
    half = {"precision": {"compute": "bf16"}}
    yield Case("fsdp, bf16", {**sharded, **half}, double=False, bars=HALF)
    less = {"precision": {"compute": "bf16", "reduce": "bf16"}}
    yield Case("fsdp, bf16, reduced in it", {**sharded, **less}, double=False, bars=HALF)
    whole: Fields = {"precision": {"params": "bf16", "compute": "bf16"}}
    yield Case("fsdp, bf16 throughout", {**sharded, **whole}, double=False, bars=(5e-3, 5e-2, 3e-2), reference=whole)
    single = {"precision": {"compute": "fp16"}}
    yield Case("fsdp, fp16", {**sharded, **single}, double=False, bars=(2e-3, 1e-2, 2e-2))


def hsdp() -> Iterator[Case]:
    hybrid: Fields = {"strategy": "hsdp"}
    yield Case("hsdp, 2 x 2 by pods", hybrid, 4, 2)
    yield Case("hsdp, 4 x 2", {**hybrid, "mesh": {"shard": 2}}, 8)
    yield Case("hsdp, 2 x 4", {**hybrid, "mesh": {"replicate": 2}}, 8)
    yield Case("hsdp, 2 x 2, accumulation", {**hybrid, "mesh": {"shard": 2}, **accumulation(3), **CLIP}, 4)
    # reduced in fp16 the first steps overflow and are left out, as they should be: nothing to compare
    single = {"precision": {"compute": "fp16"}}
    less = {**hybrid, "mesh": {"shard": 2}, **single}
    yield Case("hsdp, 2 x 2, fp16", less, 4, double=False, bars=(2e-3, 1e-2, 2e-2))


def mlp() -> Iterator[Case]:
    """In fp32: images are."""
    digits: Fields = {"model": {"name": "mlp", "size": "tiny"}, "data": {"images": "digits"}}
    for strategy, world in (("ddp", 3), ("fsdp", 3), ("fsdp", 8)):
        fields = {**digits, "strategy": strategy, **CLIP}
        yield Case(f"mlp, {strategy}, clipped", fields, world, double=False, bars=SINGLE, reference=digits)
    fields = {**digits, "strategy": "fsdp", "fsdp": {"wrap": "size", "minParameters": 100}, **recompute("full")}
    yield Case("mlp, fsdp, wrapped by size, full recomputation", fields, double=False, bars=SINGLE, reference=digits)


def _with_all(strategy: Fields, name: str) -> Iterator[Case]:
    """What goes with every strategy."""
    yield Case(f"{name}, accumulation", {**strategy, **accumulation(3)})
    yield Case(f"{name}, clipped", {**strategy, **CLIP}, 4)
    for mode in ("full", "selective"):
        yield Case(f"{name}, {mode} recomputation", {**strategy, **recompute(mode), **accumulation(2)})
    together = {**strategy, **accumulation(2), **CLIP, **recompute("selective")}
    yield Case(f"{name}, clipped, selective, accumulation", together, 3)


def cases() -> list[Case]:
    return [*ddp(), *fsdp(), *hsdp(), *mlp()]
