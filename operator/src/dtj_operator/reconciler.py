"""One job's reconcile: observe, decide, act, report. The prose and nothing else; every rule lives in policy/.

Observed is what the watches have brought, which may be old. So what rests on something not being there (a lost pod ends
an attempt; no pod left is a suspension's end) is decided again on what the API server says now; and before anything is
made or deleted, a job that is only known from a watch is confirmed: it may be in another attempt since, or finished.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from dtj_api.progress import Progress

from dtj_operator import events
from dtj_operator.actions import Actor
from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import ApiError, Conflict, NotFound
from dtj_operator.informer import WATCHED_KINDS, Cache
from dtj_operator.pods import Node, Pod, read_node
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.lifecycle import decide, managed_elsewhere
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.settings import Settings
from dtj_operator.snapshot import (
    Job,
    JobKey,
    Observed,
    World,
    observe,
    progress_seconds,
    read_job,
    take,
    user_claim_name,
)
from dtj_operator.status import merge_patch, report
from dtj_operator.workqueue import NEVER, Requeue, sooner

logger = logging.getLogger(__name__)

# Of one gang's pods in doubt so many nodes are asked for at most: the first verdict ends them all.
MOST_NODES = 32
# Small news wait so many times longer while jobs wait for their turn: the API server has other things to do then.
QUIET_UNDER_LOAD = 6


class Progresses(Protocol):
    """What a reconcile needs to know of progress.ProgressReader."""

    def latest(self, key: JobKey, chief: Pod | None, pause: float | None = None) -> Progress | None: ...

    def forget(self, key: JobKey) -> None: ...


class Reconciler:
    """Brings one job a step closer to its spec; safe to run at any time, from any state."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        settings: Settings,
        progress: Progresses,
        rehearsals: Rehearsals,
        under_load: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._actor = Actor(cluster, cache, rehearsals)
        self._settings = settings
        self._progress = progress
        self._clock = clock
        self._under_load = under_load
        self._doubted: set[JobKey] = set()
        # when anything was last made for a job, or told of it
        self._busy: dict[JobKey, datetime] = {}

    async def reconcile(self, key: JobKey) -> Requeue:
        # one moment for all: a restart is known by the time it was decided at
        now = self._clock()
        world = await self._observe(key) if key not in self._doubted else await self._ask(key)
        self._doubted.discard(key)
        decision = decide(world, now, self._settings) if world else None
        if decision and decision.rests_on_absence:
            world = await self._ask(key)
            decision = decide(world, now, self._settings) if world else None
        if world is None or decision is None:
            self._forget(key)
            return NEVER  # gone, or going: garbage collection does the rest
        if decision.hands_off:
            return NEVER
        if decision.acts and not await self._confirm(key, world.job):
            return NEVER
        decision = await self._actor.carry_out(world.job, decision)
        if decision.create_pods:
            self._busy[key] = self._clock()
        if decision.delete_job:
            return decision.next_look
        return sooner(decision.next_look, await self._publish(key, world, decision, now))

    async def _observe(self, key: JobKey) -> World | None:
        """The job and all it owns, as last heard of."""
        raw = self._cache.job(key)
        return await self._world(raw, self._cache.children(key)) if raw is not None else None

    async def _ask(self, key: JobKey) -> World | None:
        """The same as the API server has it. The job is read first: what is made for it meanwhile is seen, never
        missed."""
        raw = await self._cluster.get_job(key.namespace, key.name)
        if raw is None:
            return None
        self._cache.see_job(raw)
        listed = await asyncio.gather(
            *(self._cluster.list_children(kind, key.namespace, key.name) for kind in WATCHED_KINDS)
        )
        return await self._world(raw, [observe(child) for children in listed for child in children])

    async def _world(self, raw: Object, children: list[Observed]) -> World | None:
        job = read_job(raw)
        if job is None:
            return None
        if managed_elsewhere(job):
            return World(job)
        key = JobKey(job.namespace, job.name)
        if _may_have_pod_monitor(job):
            children = [*children, *map(observe, await self._cluster.list_children("PodMonitor", *key))]
        claim_name = user_claim_name(job)
        claim = None
        if claim_name is not None and not job.status.is_true("Running") and not job.status.finished:
            claim = await self._cluster.find("PersistentVolumeClaim", job.namespace, claim_name)
        world = take(job, children, claim)
        world = world.with_progress(self._progress.latest(key, world.pods.get(0), progress_seconds(job)))
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

    async def _publish(self, key: JobKey, world: World, decision: Decision, now: datetime) -> Requeue:
        """One status patch, if anything changed; then the events of that change."""
        job, status = world.job, report(world, decision, now)
        patch = merge_patch(job.raw_status, status)
        if not patch:
            return NEVER
        if (wait := self._may_wait(key, patch, decision, now)) > 0:
            return Requeue(after=wait)
        if not await self._patch(key, job, patch):
            return NEVER
        self._busy[key] = now
        if status.phase != job.status.phase:
            logger.info("%s: %s", key, status.phase)
        for event in events.of_transition(job, status, now):
            try:
                await self._cluster.create_event(event)
            except ApiError as error:
                logger.warning("%s: event %s was not told: %s", key, event["reason"], error)
        return NEVER

    async def _confirm(self, key: JobKey, job: Job) -> bool:
        """Whether it is the newest version. Nothing is written, but the API server compares: no read is as sure."""
        return self._cache.is_confirmed(key, job.resource_version) or await self._patch(key, job, {})

    async def _patch(self, key: JobKey, job: Job, status: Object) -> bool:
        """False where there is no such job any more.

        Raises:
            Conflict: the job has changed since it was observed; the next look asks for it.
        """
        identity = {"uid": job.uid, "resourceVersion": job.resource_version}
        try:
            patched = await self._cluster.patch_status(key.namespace, key.name, identity, status)
        except NotFound:
            self._forget(key)
            return False
        except Conflict:
            self._doubted.add(key)
            raise
        self._cache.see_job(patched, confirmed=True)
        return True

    def _may_wait(self, key: JobKey, patch: Object, decision: Decision, now: datetime) -> float:
        """Seconds for which this news may wait for other, to be told with it; 0 or less for what is told at once."""
        busy = self._busy.get(key)
        if busy is None or not (decision.unhurried or patch.keys() <= {"workers"}):
            return 0.0
        longest = self._settings.quiet_seconds * (QUIET_UNDER_LOAD if self._under_load() else 1)
        return longest - (now - busy).total_seconds()

    def _forget(self, key: JobKey) -> None:
        self._progress.forget(key)
        self._cache.forget_job(key)
        self._busy.pop(key, None)


def _may_have_pod_monitor(job: Job) -> bool:
    """They are listed and not watched: most clusters do not know them, and most jobs have none."""
    if job.status.finished or job.status.is_true("Running"):
        return False
    monitoring = job.spec.get("monitoring") if isinstance(job.spec, Mapping) else None
    asked_for = isinstance(monitoring, Mapping) and bool(monitoring.get("podMonitor"))
    # only a suspended job can have asked for one before
    return asked_for or job.status.condition("Suspended") is not None
