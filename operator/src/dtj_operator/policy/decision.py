"""What a policy can decide. Frozen; carried out by actions.py, told by status.py."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from dtj_api.fields import FieldError
from dtj_api.layout import Layout
from dtj_api.status import ConditionType, LastFailure, Phase

from dtj_operator.children import Object
from dtj_operator.pods import Pod
from dtj_operator.snapshot import Child
from dtj_operator.workqueue import NEVER, Requeue


@dataclass(frozen=True)
class Finding:
    """One condition as it should be."""

    kind: ConditionType
    status: Literal["True", "False"]
    reason: str
    message: str


@dataclass(frozen=True)
class Begin:
    """An attempt to begin: written down before anything is made for it.

    Attributes:
        resets_start: the job's time begins with it: it is the first, or follows a suspension.
    """

    attempt: int
    workers: int
    world_size: int
    mesh: Layout | None
    resets_start: bool


@dataclass(frozen=True)
class End:
    """The attempt at hand has ended, and why. `failure` is what status.lastFailure is to say, where it failed."""

    reason: str
    message: str
    failure: LastFailure | None = None


@dataclass(frozen=True)
class Decision:
    """
    Attributes:
        phase: as it should be; None leaves it.
        end, begin: attempts; the end comes first.
        recent_restarts: what status.recentRestarts should be; None leaves it.
        faults: of the spec; nothing is made while there is one.
        rehearse: objects the API server must be willing to take before the job is accepted.
        create: prerequisites, made one by one in order; `create_pods` after them, side by side.
        repair: objects that a running gang has lost; its status does not hang on them.
        remove: pods to delete. `discard`: other children to delete.
        hands_off: the job is somebody else's: nothing is written, not even its status.
        delete_job: its time after the end is over.
        unhurried: nobody waits for what it tells: it is told with what comes next, if that comes soon.
        next_look: when to look again if nothing happens.
    """

    phase: Phase | None = None
    findings: tuple[Finding, ...] = ()
    end: End | None = None
    begin: Begin | None = None
    recent_restarts: tuple[str, ...] | None = None
    faults: tuple[FieldError, ...] = ()
    rehearse: tuple[Object, ...] = field(default=(), repr=False)
    create: tuple[Object, ...] = field(default=(), repr=False)
    create_pods: tuple[Object, ...] = field(default=(), repr=False)
    repair: tuple[Object, ...] = field(default=(), repr=False)
    remove: tuple[Pod, ...] = ()
    discard: tuple[Child, ...] = ()
    hands_off: bool = False
    delete_job: bool = False
    unhurried: bool = False
    next_look: Requeue = NEVER

    @property
    def acts(self) -> bool:
        """More is done than to tell and to rehearse."""
        made = self.create or self.create_pods or self.repair
        return bool(made or self.remove or self.discard or self.delete_job)

    @property
    def rests_on_absence(self) -> bool:
        """Something that was not seen may have led to it."""
        failed = self.end is not None and self.end.failure is not None
        return failed or any(finding.kind == "Suspended" and finding.status == "True" for finding in self.findings)

    @property
    def finishes(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def soonest(seconds: Iterable[float | None]) -> Requeue:
    """The earliest of several wishes to look again; None is no wish."""
    wishes = [wish for wish in seconds if wish is not None]
    return Requeue(after=max(0.0, min(wishes))) if wishes else NEVER
