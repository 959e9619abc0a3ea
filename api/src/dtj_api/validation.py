"""Rules that span fields. One path for operator, webhook, CLI and trainer. Pure: a spec in, every fault out."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from dtj_api import names
from dtj_api.fields import FieldError, InvalidFields, examine, without_followers
from dtj_api.layout import Layout, Ranks, layout, layout_errors
from dtj_api.partition import microbatch_errors, partition_errors
from dtj_api.reasons import meant_by
from dtj_api.spec import FailureRule, JobSpec
from dtj_api.storage import checkpoint_errors, mount_errors, storage_errors, volume_modes
from dtj_api.strategies import strategy_errors
from dtj_api.template import (
    containers,
    examine_template,
    host_errors,
    interface_errors,
    template_errors,
    trainer_container,
    trainer_path,
)
from dtj_api.training import SIZES, WITH_HEADS, Training, dimensions

ACCELERATOR_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def load_job_spec(raw: Any, allowed: frozenset[str] = frozenset()) -> JobSpec:
    """Decode and validate `spec` of a job that may use the `allowed` host features (template.HOST_FEATURES).

    Raises:
        InvalidFields: with every fault found.
    """
    spec, errors = examine(JobSpec, raw, "spec")
    given: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    template = None
    if isinstance(given.get("template"), Mapping):
        template, faults = examine_template(given["template"])
        errors += faults
    if spec is not None:
        spec = dataclasses.replace(spec, template=template)
        found = _job_errors(spec, allowed, _known_ranks(spec, errors), is_script=given.get("training") is None)
        errors += without_followers(found, errors)
    if spec is None or errors:
        raise InvalidFields(errors)
    return spec


def _known_ranks(spec: JobSpec, errors: list[FieldError]) -> Ranks | None:
    """The ranks; None where what says how many is faulty."""
    source = "spec.template" if spec.processes_per_worker == "auto" else "spec.processesPerWorker"
    return None if any(error.path.startswith(source) for error in errors) else ranks(spec)


def _job_errors(
    spec: JobSpec, allowed: frozenset[str], known: Ranks | None, *, is_script: bool
) -> Iterator[FieldError]:
    """Every fault of a decoded spec that no single field shows. `training` may be missing because it is faulty: only
    `is_script` says that the job has none."""
    if spec.training is None and spec.template is None:
        remedy = "set one: training for the built-in trainer, template for a script of your own"
        yield FieldError("spec", "has neither training nor template", remedy)
    if spec.template is not None:
        yield from template_errors(spec.template)
        yield from interface_errors(spec.template, spec.network)
    yield from host_errors(spec.template or {}, spec.network, allowed)
    if spec.checkpoint is not None:
        yield from checkpoint_errors(spec.checkpoint)
        yield from mount_errors(spec.template or {}, spec.checkpoint)
    for i, rule in enumerate(spec.failure_rules):
        yield from _failure_rule_errors(rule, f"spec.failureRules[{i}]")
    if spec.monitoring.port == names.MASTER_PORT:
        problem = f"{names.MASTER_PORT} is the port of the ranks' rendezvous"
        yield FieldError("spec.monitoring.port", problem, "choose another, such as 9464")
    if spec.training is not None:
        yield from _built_in_errors(spec, spec.training, known)
    elif is_script:
        yield from _script_errors(spec)


def _built_in_errors(spec: JobSpec, training: Training, known: Ranks | None) -> Iterator[FieldError]:
    """Faults of a job that runs the built-in trainer."""
    template = spec.template or {}
    for name in ("command", "args"):
        if trainer_container(template).get(name):
            path = f"{trainer_path(template)}.{name}"
            yield FieldError(path, "cannot be set beside spec.training", "remove it, or spec.training")
    yield from training_errors(training, known, "spec.training")


def _script_errors(spec: JobSpec) -> Iterator[FieldError]:
    """Faults of a job that runs a script of the user's own."""
    template = spec.template or {}
    if containers(template) and not trainer_container(template).get("image"):
        yield FieldError(f"{trainer_path(template)}.image", "is missing", "name the image of your script")
    if spec.checkpoint is not None:
        given = {"resume": spec.checkpoint.resume != "auto", "everySeconds": spec.checkpoint.every_seconds is not None}
        for name in (name for name, is_given in given.items() if is_given):
            remedy = "remove it: your script decides, it finds the folder in DTJ_CHECKPOINT_DIR"
            yield FieldError(f"spec.checkpoint.{name}", "is only for spec.training", remedy)
    yield from storage_errors(spec, volume_modes(spec))


def _failure_rule_errors(rule: FailureRule, path: str) -> Iterator[FieldError]:
    if not (rule.on_exit_codes or rule.on_reasons or rule.on_pod_conditions or rule.on_node_conditions):
        problem = "a rule needs at least one of onExitCodes, onReasons, onPodConditions and onNodeConditions"
        yield FieldError(path, problem, "add one, or remove the rule")
    for i, reason in enumerate(rule.on_reasons):
        if (meant := meant_by(reason)) is not None:
            yield FieldError(f"{path}.onReasons[{i}]", f"{reason!r} is not a known reason", f"did you mean {meant}?")


def processes_per_worker(spec: JobSpec) -> int:
    """Ranks in each pod; `auto` is the trainer container's accelerator limit, else 1."""
    if spec.processes_per_worker != "auto":
        return spec.processes_per_worker
    resources = trainer_container(spec.template or {}).get("resources", {})
    for kind in ("limits", "requests"):
        for name in ACCELERATOR_RESOURCES:
            count = str(resources.get(kind, {}).get(name, ""))
            if count.isdecimal() and int(count) > 0:
                return int(count)
    return 1


def ranks(spec: JobSpec) -> Ranks:
    processes = processes_per_worker(spec)
    return Ranks(spec.workers * processes, processes)


def world_size(spec: JobSpec) -> int:
    """Ranks in the whole gang."""
    return ranks(spec).world


def mesh(spec: JobSpec) -> Layout | None:
    """How the ranks of a validated job share the work; a script's are its own affair."""
    return layout(spec.training, ranks(spec)) if spec.training is not None else None


def training_errors(training: Training, known: Ranks | None, path: str) -> Iterator[FieldError]:
    """Faults of `training` when it runs on those ranks, or on a number of them that is not known."""
    yield from _model_errors(training, path)
    yield from _data_errors(training, path)
    yield from strategy_errors(training, path)
    if known is None:
        yield from _batch_errors(training, None, path)
        return
    laid_out = list(layout_errors(training, known, path))
    yield from laid_out
    mesh = None if laid_out else layout(training, known)
    if mesh is not None and not any(_model_errors(training, path)):
        yield from partition_errors(training, mesh, path)
    batch = list(_batch_errors(training, mesh, path))
    yield from batch
    if mesh is not None and not batch:
        yield from microbatch_errors(training, mesh, path)


def _model_errors(training: Training, path: str) -> Iterator[FieldError]:
    model = training.model
    if (model.name is None) == (model.import_ is None):
        problem = "has neither name nor import" if model.name is None else "has both name and import"
        remedy = "set name for one of the trainer's models, import for your own"
        yield FieldError(f"{path}.model", problem, remedy)
        return
    for name in ("size", "dimensions") if model.name is None else ("arguments",):
        if getattr(model, name) is not None:
            other = "name" if model.name is None else "import"
            yield FieldError(f"{path}.model.{name}", f"is only for {other}", "remove it")
    if model.name is None:
        return
    sizes = SIZES[model.name]
    if model.size is not None and model.dimensions is not None:
        yield FieldError(f"{path}.model", "has both size and dimensions", "remove one of them")
    elif model.size is not None and model.size not in sizes:
        remedy = f"choose one of: {', '.join(sizes)}, or give dimensions"
        yield FieldError(f"{path}.model.size", f"{model.size!r} is not a size of {model.name}", remedy)
    elif model.name in WITH_HEADS:
        shape = dimensions(model)
        assert shape is not None
        if shape.heads is None:
            yield FieldError(
                f"{path}.model.dimensions.heads",
                "is missing",
                f"{model.name} needs a number of attention heads",
            )
        elif shape.width % shape.heads:
            problem = f"{shape.width} does not divide by heads ({shape.heads})"
            remedy = f"use a multiple of {shape.heads}, such as {_multiple(shape.width, shape.heads)}"
            yield FieldError(f"{path}.model.dimensions.width", problem, remedy)


def _data_errors(training: Training, path: str) -> Iterator[FieldError]:
    data = training.data
    given = [name for name in ("text", "tokens", "images") if getattr(data, name) is not None]
    if len(given) != 1:
        problem = f"has {' and '.join(given)}" if given else "names no data"
        yield FieldError(f"{path}.data", problem, "set exactly one of text, tokens, images")
        return
    kinds = {"gpt": ("text", "tokens"), "mlp": ("images",), "vision": ("images",)}
    fitting = kinds[training.model.name] if training.model.name is not None else ("text", "tokens", "images")
    if given[0] not in fitting:
        problem = f"{training.model.name} cannot train on {given[0]}"
        yield FieldError(
            f"{path}.data.{given[0]}",
            problem,
            f"set data.{' or data.'.join(fitting)}, or another model",
        )
    if data.text is not None and data.text != "tinydocs" and not data.text.startswith("/"):
        yield FieldError(f"{path}.data.text", f"{data.text!r} is unknown", "write tinydocs, or an absolute path")
    if data.tokens is not None and not data.tokens.startswith("/"):
        yield FieldError(f"{path}.data.tokens", f"{data.tokens!r} is not an absolute path", "begin it with /")
    if data.tokens is not None and data.vocabulary_size is None:
        remedy = "set the number of tokens your tokenizer knows, such as 50257 for GPT-2's"
        yield FieldError(f"{path}.data.vocabularySize", "is missing", remedy)
    if data.tokens is None and data.vocabulary_size is not None:
        remedy = "remove it: text is read as bytes (256), and images have classes"
        yield FieldError(f"{path}.data.vocabularySize", "is only for tokens", remedy)


def _batch_errors(training: Training, mesh: Layout | None, path: str) -> Iterator[FieldError]:
    batch = training.batch
    if (batch.global_ is None) == (batch.per_process is None):
        problem = "has neither global nor perProcess" if batch.global_ is None else "has both global and perProcess"
        yield FieldError(f"{path}.batch", problem, "set exactly one of them")
    elif mesh is not None and batch.global_ is not None and batch.global_ % (mesh.data_ranks * batch.accumulation):
        parts = mesh.data_ranks * batch.accumulation
        what = "processes" if mesh.data_ranks == mesh.world_size else "copies or shards"
        words = f"{mesh.data_ranks} {what} x accumulation {batch.accumulation}"
        problem = f"{batch.global_} does not divide by {parts} ({words})"
        remedy = f"use a multiple of {parts}, such as {_multiple(batch.global_, parts)}"
        yield FieldError(f"{path}.batch.global", problem, remedy)


def _multiple(value: int, of: int) -> int:
    """The multiple of `of` next to `value` from above."""
    return -(-value // of) * of
