"""One job's reconcile: observe, decide, act, report. The prose and nothing else; every rule lives in policy/."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from dtj_api.progress import Progress
from dtj_api.status import JobStatus

from dtj_operator import events
from dtj_operator.actions import carry_out
from dtj_operator.cluster import Cluster
from dtj_operator.errors import ApiError, NotFound
from dtj_operator.pods import Node, Pod, read_node
from dtj_operator.policy.lifecycle import decide, managed_elsewhere
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Job, JobKey, World, progress_seconds, read_job, take, user_claim_name
from dtj_operator.status import merge_patch, report
from dtj_operator.workqueue import NEVER, Requeue

logger = logging.getLogger(__name__)

# Of one gang's pods in doubt so many nodes are asked for at most: the first verdict ends them all.
MOST_NODES = 32


class Progresses(Protocol):
    """What a reconcile needs to know of progress.ProgressReader."""

    def latest(self, key: JobKey, chief: Pod | None, pause: float | None = None) -> Progress | None: ...

    def forget(self, key: JobKey) -> None: ...


class Reconciler:
    """Brings one job a step closer to its spec; safe to run at any time, from any state."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        progress: Progresses,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._progress = progress
        self._clock = clock

    async def reconcile(self, key: JobKey) -> Requeue:
        world = await self._observe(key)
        if world is None:
            self._progress.forget(key)
            return NEVER  # gone, or going: garbage collection does the rest
        # one moment for all: a restart is known by the time it was decided at
        now = self._clock()
        decision = decide(world, now, self._settings)
        if decision.hands_off:
            return NEVER
        decision = await carry_out(self._cluster, world.job, decision)
        if not decision.delete_job:
            await self._publish(key, world, report(world, decision, now), now)
        return decision.next_look

    async def _observe(self, key: JobKey) -> World | None:
        """The job and all it owns. The job is read first: what is made for it meanwhile is seen, never missed."""
        raw = await self._cluster.get_job(key.namespace, key.name)
        job = read_job(raw) if raw is not None else None
        if job is None:
            return None
        if managed_elsewhere(job):
            return World(job)
        listed = await asyncio.gather(
            *(self._cluster.list_children(kind, key.namespace, key.name) for kind in _kinds_to_list(job))
        )
        claim_name = user_claim_name(job)
        claim = None
        if claim_name is not None and not job.status.is_true("Running") and not job.status.finished:
            claim = await self._cluster.find("PersistentVolumeClaim", key.namespace, claim_name)
        world = take(job, [child for children in listed for child in children], claim)
        pause = progress_seconds(job)
        world = world.with_progress(self._progress.latest(key, world.pods.get(0), pause))
        return world.with_nodes(await self._nodes_in_doubt(world))

    async def _nodes_in_doubt(self, world: World) -> dict[str, Node]:
        """Nodes of pods that may be lost with them, and of pods that failed, whose rules may ask for its conditions."""
        if world.job.status.finished:
            return {}
        now = self._clock()
        pods = sorted(world.pods.values(), key=lambda pod: (not pod.failed, pod.worker))
        doubtful = dict.fromkeys(pod.node for pod in pods if pod.node and (pod.node_in_doubt(now) or pod.failed))
        names = list(doubtful)[:MOST_NODES]
        found = await asyncio.gather(*(self._cluster.get_node(name) for name in names))
        return {name: read_node(name, raw) for name, raw in zip(names, found, strict=True)}

    async def _publish(self, key: JobKey, world: World, status: JobStatus, now: datetime) -> None:
        """One status patch, if anything changed; then the events of that change."""
        job = world.job
        patch = merge_patch(job.raw_status, status)
        if not patch:
            return
        identity = {"uid": job.uid, "resourceVersion": job.resource_version}
        try:
            await self._cluster.patch_status(key.namespace, key.name, identity, patch)
        except NotFound:
            return
        if status.phase != job.status.phase:
            logger.info("%s: %s", key, status.phase)
        for event in events.of_transition(job, status, now):
            try:
                await self._cluster.create_event(event)
            except ApiError as error:
                logger.warning("%s: event %s was not told: %s", key, event["reason"], error)


def _kinds_to_list(job: Job) -> list[str]:
    """What a decision on the job may need to know of."""
    kinds = ["Pod", "Service", "NetworkPolicy"]
    if job.status.finished:
        return kinds
    if not job.status.is_true("Running"):
        kinds.append("PersistentVolumeClaim")
    monitoring = job.spec.get("monitoring") if isinstance(job.spec, Mapping) else None
    asked_for = isinstance(monitoring, Mapping) and bool(monitoring.get("podMonitor"))
    # the spec of an attempt before this one may have asked for it
    if asked_for or (job.attempt > 0 and not job.status.is_true("Created")):
        kinds.append("PodMonitor")
    return kinds
