"""Which settings go with which strategy, and which pairs torch cannot do: each with the nearest alternative. Pure."""

from collections.abc import Iterator, Sequence

from dtj_api.fields import FieldError, manifest_name
from dtj_api.parallel import Ddp, Fsdp, Pipeline, Tensor
from dtj_api.training import Training

# settings -> strategies that read them
_GROUPS = {
    "ddp": (Ddp(), ("ddp",)),
    "fsdp": (Fsdp(), ("fsdp", "hsdp", "hybrid")),
    "tensor": (Tensor(), ("tensor", "hybrid")),
    "pipeline": (Pipeline(), ("pipeline", "hybrid")),
}


def strategy_errors(training: Training, path: str) -> Iterator[FieldError]:
    """What cannot go together, whatever the number of ranks."""
    for name, (default, readers) in _GROUPS.items():
        if getattr(training, name) != default and training.strategy not in readers:
            problem = f"is for strategy {_listed(readers)}, not {training.strategy}"
            yield FieldError(f"{path}.{name}", problem, f"remove it, or set strategy: {readers[0]}")
    if training.ddp.static_graph and training.ddp.find_unused_parameters:
        problem = "is set beside staticGraph, which finds them itself"
        yield FieldError(f"{path}.ddp.findUnusedParameters", problem, "remove one of them")
    if training.ddp.static_graph and training.batch.accumulation > 1:
        problem = "does not go with batch.accumulation: torch's reducer fails in a first pass without an exchange"
        yield FieldError(f"{path}.ddp.staticGraph", problem, "remove it, or set accumulation: 1")
    yield from _compression_errors(training.ddp, f"{path}.ddp")
    if training.fsdp.wrap == "blocks" and training.fsdp.min_parameters != Fsdp().min_parameters:
        yield FieldError(f"{path}.fsdp.minParameters", "is only for wrap: size", "remove it, or set wrap: size")
    yield from _precision_errors(training, f"{path}.precision")


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _compression_errors(ddp: Ddp, path: str) -> Iterator[FieldError]:
    """Settings of another compression than the one that is set."""
    readers = {
        "compression_ratio": ("topk",),
        "compression_rank": ("powersgd",),
        "compression_warmup_steps": ("powersgd", "topk"),
    }
    for name, kinds in readers.items():
        if getattr(ddp, name) != getattr(Ddp(), name) and ddp.compression not in kinds:
            problem = f"is for compression {' and '.join(kinds)}, not {ddp.compression}"
            yield FieldError(f"{path}.{manifest_name(name)}", problem, f"remove it, or set compression: {kinds[0]}")


def _precision_errors(training: Training, path: str) -> Iterator[FieldError]:
    precision, ddp = training.precision, training.strategy == "ddp"
    if precision.compute == "fp16" and precision.params != "fp32":
        problem = f"fp16 needs a loss scale, which does not fit {precision.params} parameters"
        yield FieldError(f"{path}.compute", problem, "set compute: bf16, or params: fp32")
    if precision.compute == "fp16" and ddp and training.ddp.compression in ("powersgd", "topk"):
        problem = f"one overflow would stay in what {training.ddp.compression} keeps for later steps"
        yield FieldError(f"{path}.compute", problem, "set compute: bf16, or ddp.compression: fp16")
    if precision.params == "bf16" and precision.compute == "fp32":
        yield FieldError(f"{path}.compute", "is fp32, with parameters of bf16", "set compute: bf16, or params: fp32")
    if training.strategy in ("tensor", "pipeline") and precision.reduce is not None:
        problem = f"strategy {training.strategy} has one copy of the model, and no gradients to reduce"
        yield FieldError(f"{path}.reduce", problem, "remove it")
    if ddp and precision.reduce not in (None, precision.params):
        problem = f"strategy ddp reduces gradients in the format of its parameters, {precision.params}"
        other = f"ddp.compression: {precision.reduce}" if precision.reduce != "fp32" else "params: fp32"
        yield FieldError(f"{path}.reduce", problem, f"remove it, or set {other}, or strategy: fsdp")
