"""What is compared with one process: strategies, worlds, and what goes with each. A bar is the largest difference."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dtj_api.partition import SCHEDULES as RULES

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


SEQUENCE: Fields = {"tensor": {"sequenceParallel": True}}
CLASSES: Fields = {"tensor": {"lossParallel": True}}
BOTH: Fields = {"tensor": {"sequenceParallel": True, "lossParallel": True}}
DEEP: Fields = {"model": {"name": "gpt", "dimensions": {"layers": 8, "width": 32, "heads": 4}}}


def tensor() -> Iterator[Case]:
    split: Fields = {"strategy": "tensor"}
    for world in (2, 4):
        yield Case("tensor", split, world)
        yield Case("tensor, by tokens between layers", {**split, **SEQUENCE}, world)
        yield Case("tensor, loss by classes", {**split, **CLASSES}, world)
        yield Case("tensor, by tokens and classes", {**split, **BOTH}, world)
    three: Fields = {"model": {"name": "gpt", "dimensions": {"layers": 2, "width": 36, "heads": 3}}}
    # 256 tokens on 3 ranks: parts that are not alike
    for name, more in {"": {}, ", loss by classes": CLASSES}.items():
        yield Case(f"tensor, 3 heads{name}", {**split, **three, **more}, 3, reference=three)
    yield Case("tensor, fp32", {**split, **BOTH}, 4, double=False, bars=SINGLE)
    yield from _with_all({**split, **BOTH}, "tensor", most=2)
    half = {"precision": {"compute": "bf16"}}
    yield Case("tensor, bf16", {**split, **half}, double=False, bars=HALF, reference=half)
    yield Case(
        "tensor, bf16, by tokens and classes", {**split, **BOTH, **half}, double=False, bars=HALF, reference=half
    )
    single = {"precision": {"compute": "fp16"}}
    yield Case("tensor, fp16", {**split, **single}, double=False, bars=(2e-3, 1e-2, 2e-2), reference=single)


SCHEDULES = {
    "gpipe": (2, 3, 4), "1f1b": (2, 3, 4, 8), "loopedbfs": (2, 4), "interleaved1f1b": (2, 3, 4),
    "zerobubble": (2, 4), "zbv": (2, 3, 4), "dualpipev": (2, 3, 4),
}  # fmt: skip


def pipeline() -> Iterator[Case]:
    for schedule, worlds in SCHEDULES.items():
        fields: Fields = {"strategy": "pipeline", "pipeline": {"schedule": schedule}, **DEEP}
        for world in worlds:
            yield Case(f"pipeline, {schedule}", fields, world, reference=DEEP)
        modes = ("full",) if RULES[schedule].splits_backward else ("full", "selective")
        yield from _with_all(fields, f"pipeline, {schedule}", most=2, reference=DEEP, modes=modes)
        half = {**DEEP, "precision": {"compute": "bf16"}}
        yield Case(f"pipeline, {schedule}, bf16", {**fields, **half}, double=False, bars=HALF, reference=half)
    split: Fields = {"strategy": "pipeline", **DEEP}
    for counts in ([5, 3], [1, 7]):
        name = f"pipeline, split {counts[0]} and {counts[1]}"
        yield Case(name, {**split, "pipeline": {"split": counts}}, reference=DEEP)
    more = {"schedule": "interleaved1f1b", "stagesPerRank": 4}
    yield Case("pipeline, 4 stages each", {**split, "pipeline": more}, reference=DEEP)
    yield Case(
        "pipeline, loopedbfs, 3 stages each",
        {**split, "pipeline": {"schedule": "loopedbfs", "stagesPerRank": 3, "split": [2, 1, 1, 2, 1, 1]}},
        reference=DEEP,
    )
    yield Case("pipeline, 12 microbatches", {**split, "batch": {"global": 24, "microbatches": 12}}, reference=DEEP)
    yield Case("pipeline, fp32", split, 4, double=False, bars=SINGLE, reference=DEEP)
    single = {**DEEP, "precision": {"compute": "fp16"}}
    yield Case("pipeline, fp16", {**split, **single}, double=False, bars=(2e-3, 1e-2, 2e-2), reference=single)


def hybrid() -> Iterator[Case]:
    def case(name: str, world: int, pipeline: str = "", tensor: Fields | None = None, **fields: object) -> Case:
        training = {"strategy": "hybrid", **DEEP, **fields}
        training |= {"pipeline": {"schedule": pipeline}} if pipeline else {}
        training |= tensor or {}
        return Case(f"hybrid, {name}", training, world, reference=DEEP)

    yield case("shard 2 x tensor 2", 4, mesh={"tensor": 2})
    yield case("shard 2 x tensor 2, by tokens and classes", 4, mesh={"tensor": 2}, tensor=BOTH)
    yield case("replicate 2 x tensor 2", 4, mesh={"tensor": 2, "replicate": 2})
    yield case("shard 2 x tensor 4", 8, mesh={"tensor": 4})
    yield case("replicate 2 x shard 2 x tensor 2", 8, mesh={"tensor": 2, "replicate": 2})
    yield case(
        "shard 2 x tensor 2, accumulation, clipped, recomputed",
        4,
        mesh={"tensor": 2},
        tensor=BOTH,
        **accumulation(3),
        **CLIP,
        **recompute("full"),
    )
    yield case("shard 2 x tensor 2, by size", 4, mesh={"tensor": 2}, fsdp={"wrap": "size", "minParameters": 3000})
    yield case("shard 2 x tensor 2, in the CPU's memory", 4, mesh={"tensor": 2}, fsdp={"cpuOffload": True})
    yield case("shard 2 x tensor 2, kept", 4, mesh={"tensor": 2}, fsdp={"reshardAfterForward": False})
    yield case("tensor 2 x pipeline 2", 4, mesh={"pipeline": 2, "tensor": 2})
    yield case("tensor 2 x pipeline 2, by tokens and classes", 4, mesh={"pipeline": 2, "tensor": 2}, tensor=BOTH)
    for schedule in SCHEDULES:
        yield case(f"shard 2 x pipeline 2, {schedule}", 4, schedule, mesh={"pipeline": 2})
        yield case(
            f"shard 2 x pipeline 2, {schedule}, accumulation, clipped, recomputed",
            4,
            schedule,
            mesh={"pipeline": 2},
            **accumulation(2),
            **CLIP,
            **recompute("full"),
        )
    yield case(
        "shard 2 x pipeline 2, gathered for each microbatch",
        4,
        mesh={"pipeline": 2},
        fsdp={"reshardAfterForward": True},
    )
    yield case("replicate 2 x pipeline 2", 4, mesh={"pipeline": 2, "replicate": 2})
    yield case("shard 2 x pipeline 2, in the CPU's memory", 4, mesh={"pipeline": 2}, fsdp={"cpuOffload": True})
    yield case("shard 2 x tensor 2 x pipeline 2", 8, mesh={"pipeline": 2, "tensor": 2})
    yield case(
        "replicate 2 x tensor 2 x pipeline 2, by tokens and classes",
        8,
        "interleaved1f1b",
        mesh={"pipeline": 2, "tensor": 2, "replicate": 2},
        tensor=BOTH,
    )
    yield case("shard 2 x tensor 2 x pipeline 2, zbv", 8, "zbv", mesh={"pipeline": 2, "tensor": 2}, tensor=BOTH)
    half = {**DEEP, "precision": {"compute": "bf16"}}
    for name, mesh in {"shard 2 x tensor 2": {"tensor": 2}, "shard 2 x pipeline 2": {"pipeline": 2}}.items():
        yield Case(
            f"hybrid, {name}, bf16",
            {"strategy": "hybrid", "mesh": mesh, **half},
            4,
            double=False,
            bars=HALF,
            reference=DEEP,
        )
    single = {**DEEP, "precision": {"compute": "fp16"}}
    yield Case(
        "hybrid, shard 2 x pipeline 2, fp16",
        {"strategy": "hybrid", "mesh": {"pipeline": 2}, **single},
        4,
        double=False,
        bars=(2e-3, 1e-2, 2e-2),
        reference=DEEP,
    )


def mlp() -> Iterator[Case]:
    """In fp32: images are."""
    digits: Fields = {"model": {"name": "mlp", "size": "tiny"}, "data": {"images": "digits"}}
    for strategy, world in (("ddp", 3), ("fsdp", 3), ("fsdp", 8)):
        fields = {**digits, "strategy": strategy, **CLIP}
        yield Case(f"mlp, {strategy}, clipped", fields, world, double=False, bars=SINGLE, reference=digits)
    wide: Fields = {"model": {"name": "mlp", "dimensions": {"layers": 3, "width": 24}}, "data": {"images": "digits"}}
    for strategy in ("tensor", "pipeline"):
        for world in (2, 3):
            fields = {**wide, "strategy": strategy, **CLIP}
            yield Case(f"mlp, {strategy}, clipped", fields, world, double=False, bars=SINGLE, reference=wide)
    fields = {**digits, "strategy": "fsdp", "fsdp": {"wrap": "size", "minParameters": 100}, **recompute("full")}
    yield Case("mlp, fsdp, wrapped by size, full recomputation", fields, double=False, bars=SINGLE, reference=digits)


def vision() -> Iterator[Case]:
    """In fp32: images are."""
    fields: Fields = {"model": {"name": "vision", "dimensions": {"layers": 4, "width": 32, "heads": 4}}}
    fields |= {"data": {"images": "digits"}, **CLIP}
    for name, world, more in (
        ("ddp", 3, {"strategy": "ddp"}),
        ("fsdp, selective recomputation", 4, {"strategy": "fsdp", **recompute("selective")}),
        ("tensor", 2, {"strategy": "tensor"}),
        ("pipeline, interleaved1f1b", 2, {"strategy": "pipeline", "pipeline": {"schedule": "interleaved1f1b"}}),
        ("shard 2 x tensor 2", 4, {"strategy": "hybrid", "mesh": {"tensor": 2}}),
    ):
        yield Case(f"vision, {name}", {**fields, **more}, world, double=False, bars=SINGLE, reference=fields)


def imported() -> Iterator[Case]:
    """A model that is not ours. By SGD: keys' biases have no gradient but rounding, which AdamW would blow up."""
    plain: Fields = {"optimizer": {"name": "sgd", "learningRate": 0.1, "gradClip": 1.0}}
    own: Fields = {**plain, "model": {"import": "tests.equivalence.own_model:build"}}
    declared: Fields = {**plain, "model": {"import": "tests.equivalence.own_model:build_with_parts"}}
    for name, world, fields in (
        ("ddp", 2, {**own, "strategy": "ddp"}),
        ("fsdp, full recomputation", 3, {**own, "strategy": "fsdp", **recompute("full")}),
        ("hsdp", 4, {**own, "strategy": "hsdp", "mesh": {"shard": 2}}),
        ("pipeline", 2, {**declared, "strategy": "pipeline"}),
        ("pipeline, zbv", 2, {**declared, "strategy": "pipeline", "pipeline": {"schedule": "zbv"}}),
        ("tensor, loss by classes", 2, {**declared, "strategy": "tensor", **CLASSES}),
        ("shard 2 x tensor 2", 4, {**declared, "strategy": "hybrid", "mesh": {"tensor": 2}}),
        ("tensor 2 x pipeline 2", 4, {**declared, "strategy": "hybrid", "mesh": {"tensor": 2, "pipeline": 2}}),
    ):
        yield Case(f"imported, {name}", fields, world, reference=own)


def _with_all(
    strategy: Fields,
    name: str,
    most: int = 4,
    reference: Fields | None = None,
    modes: tuple[str, ...] = ("full", "selective"),
) -> Iterator[Case]:
    """What goes with every strategy, on up to so many ranks."""

    def case(what: str, world: int, **fields: object) -> Case:
        return Case(f"{name}, {what}", {**strategy, **fields}, world, reference=reference or {})

    yield case("accumulation", 2, **accumulation(3))
    yield case("clipped", most, **CLIP)
    for mode in modes:
        yield case(f"{mode} recomputation", 2, **recompute(mode), **accumulation(2))
    all_of_them = {**accumulation(2), **CLIP, **recompute(modes[-1])}
    yield case(f"clipped, {modes[-1]}, accumulation", min(most, 3), **all_of_them)


def cases() -> list[Case]:
    return [*ddp(), *fsdp(), *hsdp(), *tensor(), *pipeline(), *hybrid(), *mlp(), *vision(), *imported()]
