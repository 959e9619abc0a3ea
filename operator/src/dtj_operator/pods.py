"""One worker's pod as it was observed, frozen and typed. Pure: raw objects of the API server end here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dtj_api import environment, names

Object = Mapping[str, Any]

# A pod that has a node for so long and does not run makes one wonder.
SLOW_TO_START = timedelta(seconds=15)


@dataclass(frozen=True)
class ContainerEnd:
    """How a container ended, as the kubelet tells it. `message` is its termination message or last log lines."""

    container: str
    exit_code: int
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


@dataclass(frozen=True)
class Waiting:
    """Why a container does not start, in the kubelet's words."""

    container: str
    image: str
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Pod:
    """One worker's pod.

    Attributes:
        processes: ranks it runs.
        end: how its trainer container ended; None while it runs or waits.
        other_end: how another container ended with a failure.
        placed_at: since when it has a node.
        conditions: status by type, as its node and the control plane tell them.
        deletion_due: when a deleted pod should be gone (request + grace period).
        disruption: reason of the DisruptionTarget condition: what, other than somebody's wish, the pod is deleted for
            (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).
        metrics_port: where it serves progress.
        built_in: runs the built-in trainer, so its exit codes have dtj_api.exit_codes' meanings.
    """

    name: str
    uid: str
    worker: int
    attempt: int = 0
    processes: int = 1
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    node: str | None = None
    ip: str | None = None
    metrics_port: int | None = None
    built_in: bool = False
    trainer_running: bool = False
    trainer_ready: bool = False
    end: ContainerEnd | None = None
    other_end: ContainerEnd | None = None
    waiting: tuple[Waiting, ...] = ()
    unschedulable: str | None = None
    placed_at: datetime | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    deletion_due: datetime | None = None
    disruption: str = ""

    @property
    def succeeded(self) -> bool:
        return self.phase == "Succeeded"

    @property
    def failed(self) -> bool:
        """It failed, or its trainer did while another container goes on."""
        return self.phase == "Failed" or (self.end is not None and self.end.exit_code != 0 and not self.succeeded)

    @property
    def ended(self) -> bool:
        """All its containers have stopped."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def started(self) -> bool:
        """Its trainer runs, or has run."""
        return self.trainer_running or self.end is not None or self.ended

    def node_in_doubt(self, now: datetime) -> bool:
        """It should run or be ending there, and there is a sign that its node may not know: the control plane calls a
        lost node's pods not ready, whatever their containers last said."""
        if self.node is None or self.ended:
            return False
        called_unready = self.trainer_ready and self.conditions.get("Ready") == "False"
        slow = not self.started and self.placed_at is not None and now - self.placed_at > SLOW_TO_START
        return called_unready or slow or self.deletion_due is not None


@dataclass(frozen=True)
class Node:
    """A node as far as its pods' fate is concerned.

    Attributes:
        unready_since: since when it has not been ready; None while it is.
        gone: there is no such node any more.
    """

    name: str
    conditions: Mapping[str, str] = field(default_factory=dict)
    unready_since: datetime | None = None
    gone: bool = False


def read_node(name: str, raw: Object | None) -> Node:
    """The typed form of a node; `raw` is None where there is none of that name."""
    if raw is None:
        return Node(name, gone=True)
    conditions = {c["type"]: c for c in (raw.get("status") or {}).get("conditions") or []}
    ready = conditions.get("Ready")
    since = parse_time(ready.get("lastTransitionTime")) if ready and ready.get("status") != "True" else None
    return Node(name, {kind: c.get("status") or "" for kind, c in conditions.items()}, since)


def read_pod(raw: Object) -> Pod:
    """The typed form of a worker's pod."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    trainer, variables = _trainer_and_environment(spec)
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    mine = next((s for s in statuses if s["name"] == trainer), None)
    state = (mine or {}).get("state") or {}
    phase = status.get("phase") or "Pending"
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    port = variables.get(environment.METRICS_PORT, "")
    placed = conditions.get("PodScheduled") or {}
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        worker=int(metadata["labels"][names.LABEL_WORKER]),
        attempt=int(metadata["labels"][names.LABEL_ATTEMPT]),
        processes=_number(variables.get(environment.LOCAL_WORLD_SIZE)) or 1,
        phase=phase,
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        node=spec.get("nodeName"),
        ip=status.get("podIP"),
        metrics_port=_number(port),
        built_in=environment.CONFIG in variables,
        # a virtual kubelet may leave out the containers
        trainer_running="running" in state if mine else phase == "Running",
        trainer_ready=bool(mine.get("ready")) and "running" in state if mine else phase == "Running",
        end=_end(mine) if mine else None,
        other_end=next((end for s in statuses if s is not mine and (end := _end(s)) and end.exit_code), None),
        waiting=tuple(_waiting(s) for s in statuses if "waiting" in (s.get("state") or {})),
        unschedulable=_unschedulable(conditions),
        placed_at=parse_time(placed.get("lastTransitionTime")) if placed.get("status") == "True" else None,
        conditions={kind: c.get("status") or "" for kind, c in conditions.items()},
        deletion_due=parse_time(metadata.get("deletionTimestamp")),
        disruption=_disruption(conditions),
    )


def _trainer_and_environment(spec: Object) -> tuple[str, dict[str, str]]:
    containers = spec["containers"]
    trainer = next((c for c in containers if c["name"] == names.TRAINER_CONTAINER), containers[0])
    variables = {v["name"]: v.get("value") or "" for v in trainer.get("env") or []}
    return trainer["name"], variables


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _end(status: Object) -> ContainerEnd | None:
    ended = (status.get("state") or {}).get("terminated")
    if ended is None:
        return None
    return ContainerEnd(
        container=status["name"],
        exit_code=ended.get("exitCode") or 0,
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
        finished_at=parse_time(ended.get("finishedAt")),
    )


def _waiting(status: Object) -> Waiting:
    waiting = status["state"]["waiting"] or {}
    return Waiting(status["name"], status.get("image") or "", waiting.get("reason") or "", waiting.get("message") or "")


def _unschedulable(conditions: Mapping[str, Object]) -> str | None:
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") != "False":
        return None
    return scheduled.get("message") or scheduled.get("reason") or "not scheduled yet"


def _disruption(conditions: Mapping[str, Object]) -> str:
    condition = conditions.get("DisruptionTarget") or {}
    return str(condition.get("reason") or "") if condition.get("status") == "True" else ""


def parse_time(text: str | None) -> datetime | None:
    """RFC 3339 of the API server."""
    return datetime.fromisoformat(text) if text else None
