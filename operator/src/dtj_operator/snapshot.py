"""What was observed of one job and all it owns, frozen and typed. Reads nothing itself; decides nothing.

Raw objects of the API server end here: policies see only what this file took out of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dtj_api import environment, names
from dtj_api.progress import Progress
from dtj_api.status import JobStatus, decode_status

Object = Mapping[str, Any]


@dataclass(frozen=True)
class JobKey:
    """What goes through the queue."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Job:
    """The resource itself. `spec` is raw: it may be invalid."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    spec: Any
    status: JobStatus
    raw_status: Object = field(repr=False)

    @property
    def attempt(self) -> int:
        """Number of the attempt at hand; 0 until one was written down."""
        return self.status.attempt or 0


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
        end: how its trainer container ended; None while it runs or waits.
        other_end: how another container ended with a failure.
        deletion_due: when a deleted pod should be gone (request + grace period).
        disruption: reason of the DisruptionTarget condition: what, other than somebody's wish, the pod is deleted for
            (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions).
        metrics_port: where it serves progress.
        built_in: runs the built-in trainer, so its exit codes have dtj_api.exit_codes' meanings.
    """

    name: str
    uid: str
    worker: int
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


@dataclass(frozen=True)
class Blocker:
    """An object that holds a name this job needs. `leftover`: of an earlier job of the same name, or being deleted."""

    kind: str
    name: str
    owner: str
    leftover: bool


@dataclass(frozen=True)
class World:
    """One job and what there is of it.

    Attributes:
        pods: of the attempt at hand, by worker.
        present: (kind, name) of every other child the job owns.
        claims_pending: names of claims, this job's own or the user's, that are not bound.
        user_claim: whether the claim that `checkpoint.claimName` names exists; None where none is named.
        progress: worker 0's last record, where one was read.
    """

    job: Job
    pods: Mapping[int, Pod] = field(default_factory=dict)
    present: frozenset[tuple[str, str]] = frozenset()
    blockers: tuple[Blocker, ...] = ()
    claims_pending: tuple[str, ...] = ()
    user_claim: bool | None = None
    progress: Progress | None = None

    def with_progress(self, progress: Progress | None) -> "World":
        return replace(self, progress=progress)


def read_job(raw: Object) -> Job | None:
    """None for a job that is being deleted: garbage collection does the rest.

    Raises:
        dtj_api.fields.InvalidFields: its status has a form this operator does not know. It is left alone then:
            taken for a new job, a finished one would run again.
    """
    metadata = raw["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    return Job(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata["generation"],
        resource_version=metadata["resourceVersion"],
        spec=raw.get("spec"),
        status=decode_status(raw.get("status")),
        raw_status=raw.get("status") or {},
    )


def user_claim_name(job: Job) -> str | None:
    """`spec.checkpoint.claimName`, of a spec that may have any form."""
    checkpoint = job.spec.get("checkpoint") if isinstance(job.spec, Mapping) else None
    name = checkpoint.get("claimName") if isinstance(checkpoint, Mapping) else None
    return name if isinstance(name, str) and name else None


def take(job: Job, children: Iterable[Object], user_claim: Object | None) -> World:
    """Freeze what was read. `children` are all objects with the job's label, whoever owns them."""
    children = list(children)
    own = [child for child in children if is_owned(child, job)]
    claims = [child for child in own if child["kind"] == "PersistentVolumeClaim"]
    if user_claim is not None:
        claims.append(user_claim)
    return World(
        job=job,
        pods=_pods_of_attempt(own, job.attempt),
        present=frozenset((child["kind"], child["metadata"]["name"]) for child in own if child["kind"] != "Pod"),
        blockers=tuple(_leftovers(children, job)),
        claims_pending=tuple(
            claim["metadata"]["name"] for claim in claims if (claim.get("status") or {}).get("phase") != "Bound"
        ),
        user_claim=None if user_claim_name(job) is None else user_claim is not None,
    )


def is_owned(child: Object, job: Job) -> bool:
    return (_controller(child) or {}).get("uid") == job.uid


def blocker(child: Object, job: Job) -> Blocker | None:
    """`child` as something in the job's way; None where it is the job's own."""
    if is_owned(child, job):
        return None
    owner = _controller(child) or {}
    metadata = child["metadata"]
    of_same_name = owner.get("kind") == names.KIND and owner.get("name") == job.name
    return Blocker(
        kind=child["kind"],
        name=metadata["name"],
        owner=f"{owner['kind']} {owner['name']}" if owner else "nobody",
        leftover=of_same_name or bool(metadata.get("deletionTimestamp")),
    )


def _leftovers(children: Iterable[Object], job: Job) -> Iterator[Blocker]:
    """Children of an earlier job of this name. All are waited for: the new service would select the old pods too."""
    for child in children:
        if (_controller(child) or {}).get("name") == job.name:
            found = blocker(child, job)
            if found is not None and found.leftover:
                yield found


def _controller(child: Object) -> Object | None:
    owners: list[Object] = child["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _pods_of_attempt(children: Iterable[Object], attempt: int) -> dict[int, Pod]:
    pods = {}
    for child in children:
        labels = child["metadata"].get("labels") or {}
        worker = labels.get(names.LABEL_WORKER, "")
        if child["kind"] == "Pod" and labels.get(names.LABEL_ATTEMPT) == str(attempt) and worker.isdecimal():
            pods[int(worker)] = read_pod(child)
    return pods


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
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        worker=int(metadata["labels"][names.LABEL_WORKER]),
        phase=phase,
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        node=spec.get("nodeName"),
        ip=status.get("podIP"),
        metrics_port=int(port) if port.isdecimal() else None,
        built_in=environment.CONFIG in variables,
        # a virtual kubelet may leave out the containers
        trainer_running="running" in state if mine else phase == "Running",
        trainer_ready=bool(mine.get("ready")) and "running" in state if mine else phase == "Running",
        end=_end(mine) if mine else None,
        other_end=next((end for s in statuses if s is not mine and (end := _end(s)) and end.exit_code), None),
        waiting=tuple(_waiting(s) for s in statuses if "waiting" in (s.get("state") or {})),
        unschedulable=_unschedulable(conditions),
        deletion_due=parse_time(metadata.get("deletionTimestamp")),
        disruption=_disruption(conditions),
    )


def _trainer_and_environment(spec: Object) -> tuple[str, dict[str, str]]:
    containers = spec["containers"]
    trainer = next((c for c in containers if c["name"] == names.TRAINER_CONTAINER), containers[0])
    variables = {v["name"]: v.get("value") or "" for v in trainer.get("env") or []}
    return trainer["name"], variables


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
