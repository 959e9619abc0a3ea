"""`status` of a DistributedTrainingJob: phases, condition types, reasons, and its typed form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dtj_api.fields import decode, encode
from dtj_api.progress import SavedCheckpoint

Phase = Literal["Pending", "Invalid", "Running", "Succeeded", "Failed"]
ConditionType = Literal["Created", "Running", "Succeeded", "Failed"]


@dataclass(frozen=True)
class Condition:
    """One condition, as the Kubernetes API conventions have it."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | None = None


@dataclass(frozen=True)
class Workers:
    """Pods of the gang by state. `active`: created and not ended. `summary`: ready/desired, for the table."""

    desired: int
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    summary: str = ""


@dataclass(frozen=True)
class StatusProgress:
    """Progress as the status shows it. `eta` is for people ("1m20s"), `etaSeconds` for programs."""

    step: int
    total_steps: int
    epoch: int = 0
    loss: float | None = None
    eval_loss: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    eta_seconds: int | None = None
    eta: str | None = None
    last_step_time: str | None = None


@dataclass(frozen=True)
class JobStatus:
    """The whole of `status`."""

    phase: Phase | None = None
    observed_generation: int | None = None
    attempt: int | None = None
    workers: Workers | None = None
    world_size: int | None = None
    start_time: str | None = None
    first_step_time: str | None = None
    completion_time: str | None = None
    progress: StatusProgress | None = None
    checkpoint: SavedCheckpoint | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, if it was ever set."""
        return next((c for c in self.conditions if c.type == kind), None)

    def is_true(self, kind: ConditionType) -> bool:
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: nothing that happens to its children changes a finished job."""
        return self.is_true("Succeeded") or self.is_true("Failed")


def decode_status(raw: Mapping[str, Any] | None) -> JobStatus:
    """Raises InvalidFields when somebody else wrote the status in another form."""
    return decode(JobStatus, raw or {}, "status")


def encode_status(status: JobStatus) -> dict[str, Any]:
    encoded: dict[str, Any] = encode(status)
    return encoded
