"""Rules that span fields. One path for operator, webhook, CLI and trainer. Pure: a spec in, every fault out."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dtj_api import environment, names
from dtj_api.fields import FieldError, InvalidFields, examine
from dtj_api.spec import JobSpec
from dtj_api.training import SIZES, Training, dimensions

# RFC 1123 subdomain
OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
ACCELERATOR_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def load_job_spec(raw: Any) -> JobSpec:
    """Decode and validate `spec` of a job.

    Raises:
        InvalidFields: with every fault found.
    """
    spec, errors = examine(JobSpec, raw, "spec")
    if spec is not None:
        errors += job_errors(spec)
    if spec is None or errors:
        raise InvalidFields(errors)
    return spec


def job_errors(spec: JobSpec) -> Iterator[FieldError]:
    """Every fault of a decoded spec that no single field shows."""
    if spec.training is None and spec.template is None:
        remedy = "set one: training for the built-in trainer, template for a script of your own"
        yield FieldError("spec", "has neither training nor template", remedy)
    yield from _template_errors(spec)
    yield from _checkpoint_errors(spec)
    if spec.monitoring.port == names.MASTER_PORT:
        problem = f"{names.MASTER_PORT} is the port of the ranks' rendezvous"
        yield FieldError("spec.monitoring.port", problem, "choose another, such as 9464")
    if spec.training is not None:
        yield from training_errors(spec.training, world_size(spec), "spec.training")


def processes_per_worker(spec: JobSpec) -> int:
    """Ranks in each pod; `auto` is the trainer container's accelerator limit, else 1."""
    if spec.processes_per_worker != "auto":
        return spec.processes_per_worker
    resources = _mapping(trainer_container(spec.template or {}).get("resources"))
    for kind in ("limits", "requests"):
        for name in ACCELERATOR_RESOURCES:
            count = str(_mapping(resources.get(kind)).get(name, ""))
            if count.isdecimal() and int(count) > 0:
                return int(count)
    return 1


def world_size(spec: JobSpec) -> int:
    """Ranks in the whole gang."""
    return spec.workers * processes_per_worker(spec)


def trainer_container(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container that gets the rank environment: the one named `trainer`, or the first; {} where there is none."""
    containers = _containers(template)
    named = [c for c in containers if c.get("name") == names.TRAINER_CONTAINER]
    return (named or containers or [{}])[0]


def _containers(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Whatever in `template` has the form of a container. The API server checks the rest."""
    listed = _mapping(template.get("spec")).get("containers")
    return [c for c in listed if isinstance(c, Mapping)] if isinstance(listed, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def training_errors(training: Training, world: int, path: str) -> Iterator[FieldError]:
    """Faults of `training` when it runs on `world` ranks."""
    yield from _model_errors(training, path)
    yield from _data_errors(training, path)
    yield from _batch_errors(training, world, path)


def _model_errors(training: Training, path: str) -> Iterator[FieldError]:
    model = training.model
    sizes = SIZES[model.name]
    if model.size is not None and model.dimensions is not None:
        yield FieldError(f"{path}.model", "has both size and dimensions", "remove one of them")
    elif model.size is not None and model.size not in sizes:
        remedy = f"choose one of: {', '.join(sizes)}, or give dimensions"
        yield FieldError(f"{path}.model.size", f"{model.size!r} is not a size of {model.name}", remedy)
    elif model.name == "gpt":
        shape = dimensions(model)
        if shape.heads is None:
            yield FieldError(
                f"{path}.model.dimensions.heads",
                "is missing",
                "gpt needs a number of attention heads",
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
    fitting = {"gpt": ("text", "tokens"), "mlp": ("images",)}[training.model.name]
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


def _batch_errors(training: Training, world: int, path: str) -> Iterator[FieldError]:
    batch = training.batch
    if (batch.global_ is None) == (batch.per_process is None):
        problem = "has neither global nor perProcess" if batch.global_ is None else "has both global and perProcess"
        yield FieldError(f"{path}.batch", problem, "set exactly one of them")
    elif batch.global_ is not None and batch.global_ % (world * batch.accumulation):
        parts = world * batch.accumulation
        problem = f"{batch.global_} does not divide by {parts} ({world} processes x accumulation {batch.accumulation})"
        remedy = f"use a multiple of {parts}, such as {_multiple(batch.global_, parts)}"
        yield FieldError(f"{path}.batch.global", problem, remedy)


def _multiple(value: int, of: int) -> int:
    """The multiple of `of` next to `value` from above."""
    return -(-value // of) * of


def _template_errors(spec: JobSpec) -> Iterator[FieldError]:
    if spec.template is None:
        return
    path = "spec.template.spec.containers"
    containers = _containers(spec.template)
    if not containers:
        yield FieldError(path, "has no container", f"add one named {names.TRAINER_CONTAINER}")
        return
    for i, container in enumerate(containers):
        env = container.get("env")
        for j, variable in enumerate(env if isinstance(env, list) else []):
            name = _mapping(variable).get("name")
            if environment.is_reserved(name):
                yield FieldError(f"{path}[{i}].env[{j}].name", f"{name} is set by the operator", "remove it")
    main = trainer_container(spec.template)
    where = f"{path}[{containers.index(main)}]"
    own = [name for name in ("command", "args") if main.get(name)]
    if spec.training is not None and own:
        yield FieldError(f"{where}.{own[0]}", "cannot be set beside spec.training", "remove it, or spec.training")
    if spec.training is None and not main.get("image"):
        yield FieldError(f"{where}.image", "is missing", "name the image of your script")


def _checkpoint_errors(spec: JobSpec) -> Iterator[FieldError]:
    checkpoint = spec.checkpoint
    if checkpoint is None:
        return
    if (checkpoint.size is None) == (checkpoint.claim_name is None):
        problem = "has neither size nor claimName" if checkpoint.size is None else "has both size and claimName"
        remedy = "set size to have a volume claim created, or claimName to use yours"
        yield FieldError("spec.checkpoint", problem, remedy)
    if checkpoint.claim_name is not None and not OBJECT_NAME.fullmatch(checkpoint.claim_name):
        problem = f"{checkpoint.claim_name!r} cannot be the name of a claim"
        yield FieldError("spec.checkpoint.claimName", problem, "write a name of a-z, 0-9, '-' and '.'")
    if not checkpoint.mount_path.startswith("/") or posixpath.normpath(checkpoint.mount_path) in (
        "/",
        "/tmp",
    ):
        yield FieldError(
            "spec.checkpoint.mountPath",
            f"{checkpoint.mount_path!r} cannot be used",
            "write an absolute path such as /checkpoints",
        )
