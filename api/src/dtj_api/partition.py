"""How a model and a batch are cut: heads by tensor parallelism, blocks into stages, passes into microbatches. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dtj_api.fields import FieldError
from dtj_api.layout import Layout
from dtj_api.parallel import Fsdp, Pipeline, Tensor
from dtj_api.training import WITH_HEADS, Training, dimensions


@dataclass(frozen=True)
class ScheduleRule:
    """What a pipeline schedule wants.

    Attributes:
        torch_name: torch's name of it.
        per_rank: stages of each rank: the least, and the most where there is one. The least is the default.
        rounds: microbatches must be a multiple of the rounds they go in, which are microbatches // ranks.
        by_stage: there are at least as many microbatches as stages; else as ranks.
        splits_backward: gradients of inputs and of weights are computed apart.
        v_shaped: a rank has the n-th stage from either end; else every n-th.
    """

    torch_name: str
    per_rank: tuple[int, int | None]
    rounds: bool = False
    by_stage: bool = False
    splits_backward: bool = False
    v_shaped: bool = False


SCHEDULES = {
    "gpipe": ScheduleRule("GPipe", (1, 1)),
    "1f1b": ScheduleRule("1F1B", (1, 1)),
    "loopedbfs": ScheduleRule("LoopedBFS", (2, None)),
    "interleaved1f1b": ScheduleRule("Interleaved1F1B", (2, None), rounds=True),
    "zerobubble": ScheduleRule("InterleavedZeroBubble", (2, None), rounds=True, splits_backward=True),
    "zbv": ScheduleRule("ZBVZeroBubble", (2, 2), splits_backward=True, v_shaped=True),
    "dualpipev": ScheduleRule("DualPipeV", (2, 2), by_stage=True, splits_backward=True, v_shaped=True),
}


def stages_per_rank(training: Training) -> int:
    return training.pipeline.stages_per_rank or SCHEDULES[training.pipeline.schedule].per_rank[0]


def stages(training: Training, layout: Layout) -> int:
    """Of the whole pipeline."""
    return layout.pipeline * stages_per_rank(training)


def stage_owner(training: Training, layout: Layout, stage: int) -> int:
    """The rank in the pipeline that computes this stage."""
    if SCHEDULES[training.pipeline.schedule].v_shaped and stage >= layout.pipeline:
        return 2 * layout.pipeline - 1 - stage
    return stage % layout.pipeline


def microbatches(training: Training, layout: Layout) -> int:
    """That a pass is split into: as given, else the least number that leaves a bubble of a third or less (twice the
    ranks), where the samples allow it, else the most that they allow."""
    if training.batch.microbatches is not None:
        return training.batch.microbatches
    fitting = _fitting(training, layout)
    return next((count for count in fitting if count >= 2 * layout.pipeline), fitting[-1] if fitting else 1)


def partition_errors(training: Training, layout: Layout, path: str) -> Iterator[FieldError]:
    """What cannot be cut so, and settings that nothing would read."""
    if training.strategy == "hybrid" and layout.world_size > 1:
        yield from _unread_errors(training, layout, path)
    if layout.tensor > 1:
        yield from _tensor_errors(training, layout.tensor, path)
    if layout.pipeline > 1:
        yield from _stage_errors(training, layout, path)
        if SCHEDULES[training.pipeline.schedule].splits_backward:
            yield from _split_backward_errors(training, path)


def microbatch_errors(training: Training, layout: Layout, path: str) -> Iterator[FieldError]:
    """Of a batch that is whole for every rank."""
    given = training.batch.microbatches
    if layout.pipeline == 1:
        if given is not None:
            alone = training.strategy == "pipeline"
            problem = "is for pipelines, and 1 rank makes none" if alone else "is only for pipelines"
            remedy = "remove it, or add workers" if alone else "remove it, or set accumulation"
            yield FieldError(f"{path}.batch.microbatches", problem, remedy)
        return
    fitting = _fitting(training, layout)
    samples = training.per_process_batch(layout.data_ranks)
    least, by_stage = _least(training, layout), SCHEDULES[training.pipeline.schedule].by_stage
    if given is None and not fitting:
        problem = f"gives each pass {samples} samples, which make no {least} microbatches or more that are alike"
        remedy = f"a pipeline of {layout.pipeline} ranks wants {least} samples in each pass, or a multiple"
        name = "global" if training.batch.global_ is not None else "perProcess"
        yield FieldError(f"{path}.batch.{name}", problem, remedy)
    elif given is not None and given not in fitting:
        if given < least:
            what = "stages" if by_stage else "ranks of the pipeline"
            problem = f"{given} is fewer than the {least} {what}, which would never all have work"
        elif samples % given:
            problem = f"{given} does not divide the {samples} samples of a pass"
        else:
            problem = f"schedule {training.pipeline.schedule} takes no {given} microbatches on {layout.pipeline} ranks"
        remedy = f"choose one of: {', '.join(map(str, fitting[:8]))}" if fitting else "use larger batches"
        yield FieldError(f"{path}.batch.microbatches", problem, remedy)


def _least(training: Training, layout: Layout) -> int:
    """Microbatches that the schedule needs."""
    by_stage = SCHEDULES[training.pipeline.schedule].by_stage
    return stages(training, layout) if by_stage else layout.pipeline


def _fitting(training: Training, layout: Layout) -> list[int]:
    """Numbers of microbatches that the samples of a pass and the schedule allow."""
    samples, rule = training.per_process_batch(layout.data_ranks), SCHEDULES[training.pipeline.schedule]
    least = _least(training, layout)
    small = [count for count in range(1, math.isqrt(samples) + 1) if samples % count == 0]
    divisors = sorted({*small, *(samples // count for count in small)})
    divisors = [count for count in divisors if count >= least]
    return [count for count in divisors if not rule.rounds or count % (count // layout.pipeline) == 0]


def _unread_errors(training: Training, layout: Layout, path: str) -> Iterator[FieldError]:
    """Settings of a dimension that this hybrid's mesh does not have."""
    absent = {
        "tensor": (layout.tensor == 1, training.tensor != Tensor()),
        "pipeline": (layout.pipeline == 1, training.pipeline != Pipeline()),
        "fsdp": (layout.data_ranks == 1, training.fsdp != Fsdp()),
        "precision.reduce": (layout.data_ranks == 1, training.precision.reduce is not None),
    }
    for name, (is_absent, is_given) in absent.items():
        if is_absent and is_given:
            dimension = name if name in ("tensor", "pipeline") else "replicate or shard"
            yield FieldError(f"{path}.{name}", f"is given, but mesh has no {dimension}", "remove it, or change mesh")


def _tensor_errors(training: Training, ranks: int, path: str) -> Iterator[FieldError]:
    shape, model = dimensions(training.model), training.model
    if shape is None:
        return
    where = f"{path}.mesh.tensor"
    if model.name in WITH_HEADS and shape.heads is not None and shape.heads % ranks:
        proper = [str(count) for count in range(2, shape.heads + 1) if shape.heads % count == 0]
        remedy = f"choose one of: {', '.join(proper)}, or other heads" if proper else "use a model of more heads"
        yield FieldError(where, f"{ranks} ranks do not divide the {shape.heads} attention heads", remedy)
    elif shape.width % ranks:
        remedy = "choose a divisor, or another width"
        yield FieldError(where, f"{ranks} ranks do not divide the width of {shape.width}", remedy)
    length, tensor = training.data.sequence_length, training.tensor
    if model.name != "gpt" and (tensor.sequence_parallel or tensor.loss_parallel):
        yield FieldError(f"{path}.tensor", f"is for gpt, not {model.name}", "remove it")
    tokens = training.data.vocabulary_size or 256
    if model.name == "gpt" and -(-tokens // ranks) * (ranks - 1) >= tokens:
        problem = f"{ranks} ranks cannot each have a part of a vocabulary of {tokens}"
        yield FieldError(where, problem, "use fewer, or a larger vocabulary")
    if tensor.sequence_parallel and model.name == "gpt" and length % ranks:
        remedy = f"use a multiple of {ranks}, or set tensor.sequenceParallel: false"
        yield FieldError(f"{path}.data.sequenceLength", f"{length} does not divide by {ranks} ranks", remedy)


def _stage_errors(training: Training, layout: Layout, path: str) -> Iterator[FieldError]:
    pipeline, here = training.pipeline, f"{path}.pipeline"
    least, most = SCHEDULES[pipeline.schedule].per_rank
    count = stages_per_rank(training)
    if count < least or (most is not None and count > most):
        others = [name for name, rule in SCHEDULES.items() if rule.per_rank[0] <= count <= (rule.per_rank[1] or count)]
        wanted = f"{least}" if least == most else f"{least} or more"
        remedy = f"set {wanted}, or schedule: {' or '.join(others)}" if others else f"set {wanted}"
        problem = f"is {count}, but schedule {pipeline.schedule} wants {wanted} on each rank"
        yield FieldError(f"{here}.stagesPerRank", problem, remedy)
        return
    shape = dimensions(training.model)
    if shape is None:
        # the trainer sees how many blocks an imported model has
        return
    total, blocks = stages(training, layout), shape.layers
    if total > blocks:
        problem = (
            f"{total} stages ({layout.pipeline} ranks x {count} each) are more than the {blocks} blocks of the model"
        )
        yield FieldError(f"{path}.mesh.pipeline", problem, "use fewer ranks or stages, or a model of more layers")
    elif pipeline.split is not None and (len(pipeline.split) != total or sum(pipeline.split) != blocks):
        problem = f"has {len(pipeline.split)} stages of {sum(pipeline.split)} blocks"
        yield FieldError(f"{here}.split", problem, f"name {total} stages of {blocks} blocks together, or remove it")


def _split_backward_errors(training: Training, path: str) -> Iterator[FieldError]:
    schedule = training.pipeline.schedule
    if training.activation_checkpointing == "selective":
        problem = f"torch cannot split the backward pass of it, as schedule {schedule} does"
        yield FieldError(f"{path}.activationCheckpointing", problem, "set full, or schedule: interleaved1f1b")
    for name, given in (
        ("reshardAfterForward", training.fsdp.reshard_after_forward),
        ("reshardTo", training.fsdp.reshard_to),
    ):
        if given:
            problem = f"gives wrong gradients with schedule {schedule} (torch 2.15)"
            yield FieldError(f"{path}.fsdp.{name}", problem, "remove it, or set schedule: interleaved1f1b")
