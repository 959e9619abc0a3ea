"""What was observed of one job and all it owns, frozen and typed. Reads nothing itself; decides nothing.

Raw objects of the API server end here: policies see only what this file took out of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dtj_api import names
from dtj_api.progress import Progress
from dtj_api.status import JobStatus, decode_status

from dtj_operator.pods import Node, Object, Pod, read_pod


class JobKey(NamedTuple):
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
class Blocker:
    """An object that holds a name this job needs. `leftover`: of an earlier job of the same name, or being deleted."""

    kind: str
    name: str
    owner: str
    leftover: bool


@dataclass(frozen=True)
class Child:
    """An object the job owns, other than a pod. `attempt`: of which it is; None where it outlives attempts."""

    kind: str
    name: str
    uid: str
    attempt: int | None = None


@dataclass(frozen=True)
class Owner:
    """The controller among an object's owners."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Observed:
    """An object with a job's label, whoever owns it, as far as any decision looks at it.

    Attributes:
        version: its resourceVersion; of two views of an object the higher one is the later.
        deleting: it is being deleted.
        retained: a claim that a job left behind on purpose, for the next one of its name.
        bound: a claim that has its volume.
        pod: a worker's pod.
    """

    kind: str
    name: str
    uid: str
    job: str
    version: int
    owner: Owner | None = None
    attempt: int | None = None
    deleting: bool = False
    retained: bool = False
    bound: bool = False
    pod: Pod | None = None


@dataclass(frozen=True)
class World:
    """One job and what there is of it.

    Attributes:
        pods: of the attempt at hand, by worker.
        stale_pods: of other attempts.
        children: every other child the job owns, or may use: a claim that was retained for it.
        claims_pending: names of claims, this job's own or the user's, that are not bound.
        user_claim: whether the claim that `checkpoint.claimName` names exists; None where none is named.
        volume_modes: that claim's access modes.
        nodes: those whose pods are in doubt, by name.
        progress: worker 0's last record, where one was read.
    """

    job: Job
    pods: Mapping[int, Pod] = field(default_factory=dict)
    stale_pods: tuple[Pod, ...] = ()
    children: tuple[Child, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    claims_pending: tuple[str, ...] = ()
    user_claim: bool | None = None
    volume_modes: tuple[str, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    progress: Progress | None = None

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        return (*self.pods.values(), *self.stale_pods)

    def has(self, manifest: Object) -> bool:
        """Whether the child that `manifest` describes is there."""
        wanted = (manifest["kind"], manifest["metadata"]["name"])
        return any((child.kind, child.name) == wanted for child in self.children)

    def with_progress(self, progress: Progress | None) -> "World":
        return replace(self, progress=progress)

    def with_nodes(self, nodes: Mapping[str, Node]) -> "World":
        return replace(self, nodes=nodes)


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


def progress_seconds(job: Job) -> float | None:
    """`spec.monitoring.progressSeconds`, of a spec that may have any form."""
    monitoring = job.spec.get("monitoring") if isinstance(job.spec, Mapping) else None
    seconds = monitoring.get("progressSeconds") if isinstance(monitoring, Mapping) else None
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else None


def observe(raw: Object) -> Observed:
    """An object with a job's label. `raw` has its kind."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    attempt = labels.get(names.LABEL_ATTEMPT, "")
    owners = metadata.get("ownerReferences") or []
    owner = next((Owner(o["kind"], o["name"], o["uid"]) for o in owners if o.get("controller")), None)
    deleting = bool(metadata.get("deletionTimestamp"))
    claim = raw["kind"] == "PersistentVolumeClaim"
    return Observed(
        kind=raw["kind"],
        name=metadata["name"],
        uid=metadata["uid"],
        job=labels.get(names.LABEL_JOB, ""),
        version=int(metadata["resourceVersion"]),
        owner=owner,
        attempt=int(attempt) if attempt.isdecimal() else None,
        deleting=deleting,
        retained=claim and not owners and not deleting and labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY,
        bound=claim and (raw.get("status") or {}).get("phase") == "Bound",
        pod=read_pod(raw) if raw["kind"] == "Pod" and _is_a_worker(labels) else None,
    )


def take(job: Job, children: Iterable[Observed], user_claim: Object | None) -> World:
    """Freeze what was read. `children` are all objects with the job's label, whoever owns them."""
    children = list(children)
    own = [child for child in children if is_owned(child, job)]
    pods = [child.pod for child in own if child.pod is not None]
    pending = [child.name for child in own if child.kind == "PersistentVolumeClaim" and not child.bound]
    if user_claim is not None and (user_claim.get("status") or {}).get("phase") != "Bound":
        pending.append(user_claim["metadata"]["name"])
    return World(
        job=job,
        pods={pod.worker: pod for pod in pods if pod.attempt == job.status.attempt},
        stale_pods=tuple(pod for pod in pods if pod.attempt != job.status.attempt),
        children=tuple(Child(c.kind, c.name, c.uid, c.attempt) for c in own if c.kind != "Pod"),
        blockers=tuple(_leftovers(children, job)),
        claims_pending=tuple(pending),
        user_claim=None if user_claim_name(job) is None else user_claim is not None,
        volume_modes=tuple(((user_claim or {}).get("spec") or {}).get("accessModes") or ()),
    )


def is_owned(child: Observed, job: Job) -> bool:
    return (child.owner is not None and child.owner.uid == job.uid) or _is_retained_for(child, job)


def _is_retained_for(child: Observed, job: Job) -> bool:
    """A claim that an earlier job of this name made, and that it and this job are to retain."""
    checkpoint = job.spec.get("checkpoint") if isinstance(job.spec, Mapping) else None
    retains = isinstance(checkpoint, Mapping) and checkpoint.get("retain") == "Retain"
    return retains and child.retained and child.job == job.name


def _is_a_worker(labels: Mapping[str, str]) -> bool:
    return all(labels.get(label, "").isdecimal() for label in (names.LABEL_ATTEMPT, names.LABEL_WORKER))


def blocker(child: Observed, job: Job) -> Blocker | None:
    """`child` as something in the job's way; None where it is the job's own."""
    if is_owned(child, job):
        return None
    owner = child.owner
    return Blocker(
        kind=child.kind,
        name=child.name,
        owner=f"{owner.kind} {owner.name}" if owner else "nobody",
        leftover=child.deleting or (owner is not None and owner.kind == names.KIND and owner.name == job.name),
    )


def _leftovers(children: Iterable[Observed], job: Job) -> Iterator[Blocker]:
    """Children of an earlier job of this name. All are waited for: the new service would select the old pods too."""
    for child in children:
        if child.owner is not None and child.owner.name == job.name:
            found = blocker(child, job)
            if found is not None and found.leftover:
                yield found
