"""Tensor parallelism: single layers split between ranks (Shoeybi et al. 2019, Megatron-LM), and with sequence
parallelism what is between them too (Korthikanti et al. 2022). By torch's DTensor: a column-parallel layer sums the
gradient of its input over the ranks, a row-parallel one its output."""

from fnmatch import fnmatch

from dtj_api.exit_codes import ExitCode
from dtj_api.parallel import Tensor as Config
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from dtj_trainer.errors import TrainerError
from dtj_trainer.models.parts import Parts
from dtj_trainer.parallel.holdings import tie
from dtj_trainer.parallel.stages import parts_of


def split_layers(model: nn.Module, config: Config, mesh: DeviceMesh, aliases: dict[str, str]) -> None:
    """Make DTensors of the layers that the model's parts name, as far as this stage has them. With
    `config.loss_parallel` logits stay split by classes."""
    parts = parts_of(model)
    plan = {name: style for name, _ in model.named_modules() if (style := _style(name, parts, config)) is not None}
    # nothing is sent: the model has no values yet
    parallelize_module(model, mesh, plan, src_data_rank=None)
    tie(model, aliases)


def check(model: nn.Module, config: Config, aliases: dict[str, str]) -> None:
    """Raises TrainerError: INVALID_CONFIG, the model's parts do not say what the configuration needs."""
    parts = parts_of(model)
    if not (parts.column and parts.row):
        raise _missing("column and row", "tensor parallelism", "name the linear layers of a block that are split")
    if config.sequence_parallel and not (parts.tokenwise and parts.output):
        raise _missing("tokenwise and output", "sequence parallelism", "name them, or set sequenceParallel: false")
    if config.loss_parallel and not parts.output:
        raise _missing("output", "a loss by classes", "name the output layer, or set lossParallel: false")
    split = {name for name, module in model.named_modules() if _style(name, parts, config) is not None}
    for alias, name in aliases.items():
        one, other = alias.rpartition(".")[0], name.rpartition(".")[0]
        if (one in split) != (other in split):
            words = f"{one} and {other} share their weights: name both, or neither"
            raise TrainerError(ExitCode.INVALID_CONFIG, f"the model's parts (vocabulary, output, column, row): {words}")


def _style(name: str, parts: Parts, config: Config) -> ParallelStyle | None:
    """What is done to the module of that name."""
    between = Shard(1) if config.sequence_parallel else Replicate()
    if name == parts.output:
        split = config.loss_parallel
        layouts = Shard(-1) if split else Replicate()
        return ColwiseParallel(input_layouts=between, output_layouts=layouts, use_local_output=not split)
    if _named(name, parts.column):
        return ColwiseParallel(input_layouts=between)
    if _named(name, parts.row):
        return RowwiseParallel(output_layouts=between)
    if _named(name, parts.vocabulary):
        return RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    if config.sequence_parallel and _named(name, parts.positions):
        return RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0))
    if config.sequence_parallel and _named(name, parts.tokenwise):
        return SequenceParallel()
    return None


def _named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _missing(fields: str, what: str, remedy: str) -> TrainerError:
    words = f"{what} needs the model's {fields}, which its parts do not name; {remedy} (docs/guides/your-own-model.md)"
    return TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.model: {words}")
