"""A model cut into the stages of a pipeline. A stage is the plain model without what it does not need: names stay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from dtj_api.exit_codes import ExitCode
from torch import Tensor, nn

from dtj_trainer.errors import TrainerError
from dtj_trainer.models.parts import Parts


def parts_of(model: nn.Module) -> Parts:
    """Raises TrainerError: INVALID_CONFIG, the model does not say, or says what is not so."""
    parts = getattr(model, "parts", None)
    if not isinstance(parts, Parts):
        words = f"{type(model).__name__} does not say of which parts it is made, and cannot be split"
        remedy = "set its attribute `parts` (docs/guides/your-own-model.md), or use strategy: fsdp"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.model: {words}; {remedy}")
    return parts


def check(model: nn.Module) -> None:
    """Raises TrainerError: INVALID_CONFIG, there is no such list of blocks, or something belongs to no part."""
    parts = parts_of(model)
    all_parts = (parts.blocks, *parts.before, *parts.after)
    known = {name for name, _ in model.named_modules()} | {name for name, _ in model.named_parameters()}
    if missing := [name for name in all_parts if name not in known]:
        words = f"parts names {', '.join(missing)}, which {type(model).__name__} does not have"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.model: {words}; correct it")
    held = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    if lost := [name for name in held if not any(within(name, owner) for owner in all_parts)]:
        words = f"{', '.join(lost[:3])} belong to none of the parts blocks, before and after"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.model: {words}; add them to one")


def block_names(model: nn.Module) -> list[str]:
    """Of the blocks, in order."""
    blocks = parts_of(model).blocks
    return [f"{blocks}.{name}" for name, _ in model.get_submodule(blocks).named_children()]


@dataclass(frozen=True)
class Stage:
    """Blocks by name; and whether what is before them, or after, belongs to it."""

    blocks: tuple[str, ...]
    first: bool
    last: bool


def plan(model: nn.Module, counts: Sequence[int]) -> list[Stage]:
    """Stages of so many blocks each. Raises TrainerError: INVALID_CONFIG, the model does not have as many."""
    blocks = block_names(model)
    if sum(counts) != len(blocks) or min(counts) < 1:
        words = f"stages of {', '.join(map(str, counts))} blocks are not the {len(blocks)} of {type(model).__name__}"
        remedy = "correct spec.training.pipeline.split, or use fewer stages"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.pipeline: {words}; {remedy}")
    ends = list(accumulate(counts))
    return [
        Stage(tuple(blocks[end - count : end]), first=end == count, last=end == len(blocks))
        for count, end in zip(counts, ends, strict=True)
    ]


def check_count(model: nn.Module, stages: int) -> None:
    """Raises TrainerError: INVALID_CONFIG, there are more stages than blocks."""
    if stages > (blocks := len(block_names(model))):
        words = f"{stages} stages are more than the {blocks} blocks of {type(model).__name__}"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.mesh.pipeline: {words}; use fewer ranks or stages")


def names(model: nn.Module, stage: Stage, aliases: dict[str, str]) -> set[str]:
    """Of the parameters that the stage of a plain model has; of tied ones the first."""
    kept = owners(parts_of(model), stage)
    held = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    return {aliases.get(name, name) for name in held if any(within(name, owner) for owner in kept)}


def cut(model: nn.Module, stage: Stage) -> nn.Module:
    """Take from the model all but that stage, which it computes from then on."""
    model.forward = compute(model, stage)
    _prune(model, owners(parts_of(model), stage), "")
    return model


def compute(model: nn.Module, stage: Stage) -> Callable[[Tensor], Tensor]:
    """That part of the model's answer."""
    parts, blocks = parts_of(model), [model.get_submodule(name) for name in stage.blocks]

    def forward(x: Tensor) -> Tensor:
        if stage.first and parts.embed is not None:
            x = parts.embed(model, x)
        for block in blocks:
            x = block(x)
        return parts.head(model, x) if stage.last and parts.head is not None else x

    return forward


def within(name: str, owner: str) -> bool:
    """Whether the name is of the owner, or of something in it."""
    return name == owner or name.startswith(f"{owner}.")


def owners(parts: Parts, stage: Stage) -> list[str]:
    """What the stage keeps of the model, by name."""
    return [*stage.blocks, *(parts.before if stage.first else ()), *(parts.after if stage.last else ())]


def _prune(module: nn.Module, kept: Sequence[str], prefix: str) -> None:
    """Drop every submodule, parameter and buffer below that neither is kept nor holds something that is."""
    for name, child in list(module.named_children()):
        here = prefix + name
        if here in kept:
            continue
        if any(within(each, here) for each in kept):
            _prune(child, kept, f"{here}.")
        else:
            del module._modules[name]
    for held in (module._parameters, module._buffers):
        for name in [name for name in held if prefix + name not in kept]:
            del held[name]
