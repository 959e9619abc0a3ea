"""What a policy can decide. Frozen; carried out by actions.py, told by status.py."""

from dataclasses import dataclass, field
from typing import Literal

from dtj_api.status import ConditionType, Phase

from dtj_operator.children import Object
from dtj_operator.snapshot import Pod
from dtj_operator.workqueue import NEVER, Requeue


@dataclass(frozen=True)
class Finding:
    """One condition as it should be."""

    kind: ConditionType
    status: Literal["True", "False"]
    reason: str
    message: str


@dataclass(frozen=True)
class Gang:
    """Size of a job that is taken on: written down before anything is made for it."""

    workers: int
    world_size: int


@dataclass(frozen=True)
class Decision:
    """
    Attributes:
        phase: as it should be; None leaves it.
        accept: begin attempt 0 with a gang of this size.
        rehearse: objects the API server must be willing to take before the job is accepted.
        create: prerequisites, made one by one in order; `create_pods` after them, side by side.
        repair: objects that a running gang has lost; its status does not hang on them.
        remove: pods to delete.
        next_look: when to look again if nothing happens.
    """

    phase: Phase | None = None
    findings: tuple[Finding, ...] = ()
    accept: Gang | None = None
    rehearse: tuple[Object, ...] = field(default=(), repr=False)
    create: tuple[Object, ...] = field(default=(), repr=False)
    create_pods: tuple[Object, ...] = field(default=(), repr=False)
    repair: tuple[Object, ...] = field(default=(), repr=False)
    remove: tuple[Pod, ...] = ()
    next_look: Requeue = NEVER
