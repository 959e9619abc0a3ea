"""`spec` of a DistributedTrainingJob: types and defaults. Decoded once at the edge; inside, a JobSpec is known good."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dtj_api.fields import bounds, encode
from dtj_api.training import Training


@dataclass(frozen=True)
class Checkpoint:
    """Where checkpoints go and how many stay: a claim of the user's (`claimName`), or one to create (`size`)."""

    claim_name: str | None = None
    size: str | None = None
    mount_path: str = "/checkpoints"
    every_steps: int = field(default=100, metadata=bounds(minimum=1))
    keep_last: int = field(default=3, metadata=bounds(minimum=1, maximum=1000))


@dataclass(frozen=True)
class Monitoring:
    """The port on which each pod serves /metrics and /progress."""

    port: int = field(default=9464, metadata=bounds(minimum=1024, maximum=65535))


@dataclass(frozen=True)
class JobSpec:
    """The whole of `spec`. `template` is a PodTemplateSpec, passed through as it is."""

    workers: int = field(metadata=bounds(minimum=1, maximum=10000))
    processes_per_worker: int | Literal["auto"] = field(default=1, metadata=bounds(minimum=1, maximum=256))
    template: Mapping[str, Any] | None = None
    training: Training | None = None
    checkpoint: Checkpoint | None = None
    monitoring: Monitoring = Monitoring()


@dataclass(frozen=True)
class CheckpointPolicy:
    """What a trainer does with its checkpoint folder."""

    directory: str
    every_steps: int = field(default=100, metadata=bounds(minimum=1))
    keep_last: int = field(default=3, metadata=bounds(minimum=1, maximum=1000))


@dataclass(frozen=True)
class RunConfig:
    """What the operator hands to the trainer as JSON in `DTJ_CONFIG`, and what `python -m dtj_trainer FILE` reads."""

    training: Training
    checkpoint: CheckpointPolicy | None = None


def run_config(spec: JobSpec) -> RunConfig:
    """The trainer's part of a job that has `training`."""
    assert spec.training is not None
    if spec.checkpoint is None:
        return RunConfig(spec.training)
    where, every, keep = spec.checkpoint.mount_path, spec.checkpoint.every_steps, spec.checkpoint.keep_last
    return RunConfig(spec.training, CheckpointPolicy(where, every, keep))


def encode_run_config(config: RunConfig) -> Any:
    """The JSON form of `config`, defaults written out: an older trainer image cannot read others into it."""
    return encode(config)
