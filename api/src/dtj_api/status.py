"""`status` of a DistributedTrainingJob: phases, condition types, reasons, and its typed form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dtj_api.fields import decode, encode
from dtj_api.layout import Layout
from dtj_api.progress import SavedCheckpoint

Phase = Literal["Pending", "Invalid", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]
ConditionType = Literal["Created", "Running", "Restarting", "Suspended", "Stalled", "Succeeded", "Failed"]


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
    mfu: float | None = None
    eta_seconds: int | None = None
    eta: str | None = None
    last_step_time: str | None = None


@dataclass(frozen=True)
class LastFailure:
    """The first cause of the last failed attempt; never a worker that fell over because of it.

    Attributes:
        rank: the first that failed; None where only its worker is known.
        evidence: how the other workers ended, a line each.
    """

    attempt: int
    reason: str
    message: str
    time: str
    rank: int | None = None
    worker: int | None = None
    node: str | None = None
    exit_code: int | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """One try at running the gang. While it lasts it has neither `endTime` nor `reason`.

    Attributes:
        step, checkpoint_step: how far the run was, and its newest checkpoint, when the attempt ended.
    """

    attempt: int
    start_time: str
    end_time: str | None = None
    reason: str | None = None
    message: str | None = None
    step: int | None = None
    checkpoint_step: int | None = None


@dataclass(frozen=True)
class JobStatus:
    """The whole of `status`.

    Attributes:
        restarts: attempts that followed a failed one.
        recent_restarts: when those were that count against `restart.maxRestarts`: since the last progress.
        mesh: how the built-in trainer's ranks share the work; None for a script.
        attempts: the last ten, the one at hand included.
    """

    phase: Phase | None = None
    observed_generation: int | None = None
    attempt: int | None = None
    restarts: int | None = None
    recent_restarts: tuple[str, ...] = ()
    workers: Workers | None = None
    world_size: int | None = None
    mesh: Layout | None = None
    start_time: str | None = None
    first_step_time: str | None = None
    completion_time: str | None = None
    progress: StatusProgress | None = None
    checkpoint: SavedCheckpoint | None = None
    last_failure: LastFailure | None = None
    attempts: tuple[Attempt, ...] = ()
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
