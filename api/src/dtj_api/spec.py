"""`spec` of a DistributedTrainingJob: types and defaults. Decoded once at the edge; inside, a JobSpec is known good."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dtj_api.fields import bounds, encode, pattern
from dtj_api.training import Training

AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
CleanPodPolicy = Literal["Running", "All", "None"]
FailureAction = Literal["RestartJob", "FailJob", "Ignore"]
HealthAction = Literal["Restart", "Fail", "Report"]


@dataclass(frozen=True)
class Checkpoint:
    """Where checkpoints go, when one is written and how many stay: a claim of the user's (`claimName`), or one to
    create (`size`, with the two fields below it)."""

    claim_name: str | None = field(
        default=None,
        metadata=pattern(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", "a name of a-z, 0-9, '-' and '.'", max_length=253),
    )
    size: str | None = field(
        default=None,
        metadata=pattern(
            r"[1-9][0-9]*(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", "a size such as 10Gi", max_length=32
        ),
    )
    storage_class_name: str | None = field(
        default=None,
        metadata=pattern(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", "a name of a-z, 0-9, '-' and '.'", max_length=253),
    )
    access_modes: tuple[AccessMode, ...] | None = field(default=None, metadata=bounds(min_items=1, max_items=3))
    mount_path: str = field(
        default="/checkpoints", metadata=pattern(r"/[^:]*", "an absolute path such as /checkpoints", max_length=4096)
    )
    sub_path: str | None = field(
        default=None, metadata=pattern(r"[^/:][^:]*", "a relative path such as runs/gpt", max_length=4096)
    )
    every_steps: int = field(default=100, metadata=bounds(minimum=1))
    every_seconds: int | None = field(default=None, metadata=bounds(minimum=1))
    keep_last: int = field(default=3, metadata=bounds(minimum=1, maximum=1000))
    resume: int | Literal["auto", "never"] = field(default="auto", metadata=bounds(minimum=1, maximum=2**31 - 1))
    retain: Literal["Delete", "Retain"] = "Delete"


@dataclass(frozen=True)
class Restart:
    """How a failed attempt is followed by another: `maxRestarts` within `windowSeconds`, the n-th of them after
    `backoffSeconds` x 2^(n-1), at most 300 s. Progress sets the count back to 0."""

    policy: Literal["OnFailure", "Never", "ExitCode"] = "OnFailure"
    max_restarts: int = field(default=6, metadata=bounds(minimum=0, maximum=1000))
    window_seconds: int = field(default=3600, metadata=bounds(minimum=1, maximum=2**31 - 1))
    backoff_seconds: int = field(default=2, metadata=bounds(minimum=0, maximum=300))


@dataclass(frozen=True)
class OnExitCodes:
    """The exit code of the container that failed first is one of `values`, or none of them."""

    values: tuple[int, ...] = field(metadata=bounds(minimum=1, maximum=255, min_items=1, max_items=255))
    operator: Literal["In", "NotIn"] = "In"


@dataclass(frozen=True)
class ConditionPattern:
    """A condition that the pod, or its node, has."""

    type: str = field(
        metadata=pattern(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?", "a condition's type", max_length=316)
    )
    status: Literal["True", "False", "Unknown"] = "True"


@dataclass(frozen=True)
class FailureRule:
    """What to do about a failure that has all the marks given; of each list one is enough."""

    action: FailureAction
    on_exit_codes: OnExitCodes | None = None
    on_reasons: tuple[str, ...] = field(default=(), metadata=bounds(max_items=32))
    on_pod_conditions: tuple[ConditionPattern, ...] = field(default=(), metadata=bounds(max_items=16))
    on_node_conditions: tuple[ConditionPattern, ...] = field(default=(), metadata=bounds(max_items=16))
    message: str | None = field(default=None, metadata=pattern(r"[^\x00-\x1f]+", "one line of text", max_length=256))


@dataclass(frozen=True)
class Success:
    """When the job has succeeded: all workers have, or worker 0 has."""

    policy: Literal["AllWorkers", "Chief"] = "AllWorkers"


@dataclass(frozen=True)
class Health:
    """How long a gang may take to start, and a worker's node may be away."""

    startup_timeout_seconds: int = field(default=1800, metadata=bounds(minimum=1, maximum=2**31 - 1))
    action: HealthAction = "Restart"
    lost_node_seconds: int = field(default=30, metadata=bounds(minimum=1, maximum=86400))


@dataclass(frozen=True)
class Network:
    """Who may reach the ranks, and over which interfaces they talk."""

    policy: Literal["Isolated", "Open"] = "Isolated"
    host_network: bool = False
    rdma_resource: str | None = field(
        default=None,
        metadata=pattern(
            r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
            "the name of an extended resource such as rdma/hca",
            max_length=317,
        ),
    )
    interface: str | None = field(
        default=None, metadata=pattern(r"[A-Za-z0-9._-]+", "the name of an interface such as eth0", max_length=15)
    )


@dataclass(frozen=True)
class Monitoring:
    """The port on which each pod serves /metrics and /progress, and who looks there."""

    port: int = field(default=9464, metadata=bounds(minimum=1024, maximum=65535))
    pod_monitor: bool = False
    progress_seconds: int | None = field(default=None, metadata=bounds(minimum=1, maximum=3600))


@dataclass(frozen=True)
class JobSpec:
    """The whole of `spec`. `template` is a PodTemplateSpec, passed through as it is."""

    workers: int = field(metadata=bounds(minimum=1, maximum=10000))
    processes_per_worker: int | Literal["auto"] = field(default=1, metadata=bounds(minimum=1, maximum=256))
    template: Mapping[str, Any] | None = None
    training: Training | None = None
    checkpoint: Checkpoint | None = None
    restart: Restart = Restart()
    failure_rules: tuple[FailureRule, ...] = field(default=(), metadata=bounds(max_items=20))
    success: Success = Success()
    health: Health = Health()
    network: Network = Network()
    monitoring: Monitoring = Monitoring()
    suspend: bool = False
    active_deadline_seconds: int | None = field(default=None, metadata=bounds(minimum=1, maximum=2**31 - 1))
    ttl_seconds_after_finished: int | None = field(default=None, metadata=bounds(minimum=0, maximum=2**31 - 1))
    clean_pod_policy: CleanPodPolicy = "Running"
    managed_by: str | None = field(
        default=None,
        metadata=pattern(
            r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[-A-Za-z0-9/_.~]+",
            "a domain and a path such as kueue.x-k8s.io/multikueue",
            max_length=63,
        ),
    )


@dataclass(frozen=True)
class CheckpointPolicy:
    """What a trainer does with its checkpoint folder."""

    directory: str
    every_steps: int = field(default=100, metadata=bounds(minimum=1))
    every_seconds: int | None = field(default=None, metadata=bounds(minimum=1))
    keep_last: int = field(default=3, metadata=bounds(minimum=1, maximum=1000))
    resume: int | Literal["auto", "never"] = field(default="auto", metadata=bounds(minimum=1, maximum=2**31 - 1))


@dataclass(frozen=True)
class RunConfig:
    """What the operator hands to the trainer as JSON in `DTJ_CONFIG`, and what `python -m dtj_trainer FILE` reads."""

    training: Training
    checkpoint: CheckpointPolicy | None = None


def run_config(spec: JobSpec) -> RunConfig:
    """The trainer's part of a job that has `training`."""
    assert spec.training is not None
    asked = spec.checkpoint
    if asked is None:
        return RunConfig(spec.training)
    policy = CheckpointPolicy(
        directory=asked.mount_path,
        every_steps=asked.every_steps,
        every_seconds=asked.every_seconds,
        keep_last=asked.keep_last,
        resume=asked.resume,
    )
    return RunConfig(spec.training, policy)


def encode_run_config(config: RunConfig) -> Any:
    """The JSON form of `config`, defaults written out: an older trainer image cannot read others into it."""
    return encode(config)
