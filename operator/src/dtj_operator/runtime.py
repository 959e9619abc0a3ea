"""What runs side by side in the operator's process, in which order it starts, and what ends it."""

import asyncio
import os
import uuid
from collections.abc import Coroutine, Iterable
from typing import Any

from dtj_operator import credentials, health, jobs, metrics, webhook
from dtj_operator.cluster import Cluster
from dtj_operator.informer import WATCHED_KINDS, Cache, JobWatch, Reflector
from dtj_operator.leader import Leadership
from dtj_operator.progress import ProgressReader
from dtj_operator.reconciler import Reconciler
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.settings import Settings
from dtj_operator.snapshot import JobKey
from dtj_operator.tasks import until_one_ends
from dtj_operator.workqueue import Requeue, WorkQueue, serve


async def run(settings: Settings) -> None:
    """Run until a signal, or until a part of it ends: then all do, and Kubernetes starts a new one.

    Raises:
        LeaseLost: another operator may be at work.
        kubernetes.aio.config.ConfigException: neither a service account nor a kubeconfig was found.
    """
    cluster = Cluster(await credentials.load())
    rehearsals = Rehearsals(cluster)
    work = _Work(cluster, settings, rehearsals)
    parts: list[Coroutine[Any, Any, None]] = [work.run()]
    if settings.webhook is not None:
        # every replica answers, whoever is at work
        parts.append(webhook.serve(cluster, rehearsals, settings, settings.webhook))
    listening = None
    try:
        if settings.health_port:
            listening = await health.listen(settings.health_port, work.problems)
        await until_one_ends([asyncio.create_task(part) for part in parts])
    finally:
        if listening is not None:
            await listening.cleanup()
        await cluster.close()


class _Work:
    """What only one operator may do at a time."""

    def __init__(self, cluster: Cluster, settings: Settings, rehearsals: Rehearsals) -> None:
        self._cluster, self._settings, self._rehearsals = cluster, settings, rehearsals
        self._cache, self._told = Cache(), JobWatch()
        self._queue: WorkQueue[JobKey] = WorkQueue(tenant=lambda key: key.namespace)
        self._reflectors: list[Reflector] = []
        self._leadership: Leadership | None = None
        if settings.lease:
            # a container that starts again in its pod is another operator
            identity = f"{settings.identity or os.uname().nodename}_{uuid.uuid4()}"
            self._leadership = Leadership(
                cluster, settings.own_namespace, settings.lease, identity, settings.lease_seconds
            )
            cluster.may_write = lambda: self._leads
        metrics.REGISTRY.register(metrics.State(self._cache.phases, self._queue, self._reflectors, lambda: self._leads))

    @property
    def _leads(self) -> bool:
        return self._leadership is None or self._leadership.held

    def problems(self) -> list[str]:
        return health.problems(self._reflectors, self._told, self._queue.age())

    async def run(self) -> None:
        await jobs.wait_for_the_crd(self._cluster, self._settings)
        if self._leadership is None:
            await self._lead([])
            return
        await self._leadership.acquire()
        try:
            await self._lead([self._leadership.keep()])
        finally:
            await self._leadership.release()

    async def _lead(self, beside: Iterable[Coroutine[Any, Any, None]]) -> None:
        cluster, cache, queue, settings = self._cluster, self._cache, self._queue, self._settings
        progress = ProgressReader(queue.add, settings.progress_seconds)
        reconciler = Reconciler(cluster, cache, settings, progress, self._rehearsals, lambda: len(queue) > 0)
        self._reflectors += [
            Reflector(cluster, cache, kind, scope, queue.add) for kind in WATCHED_KINDS for scope in settings.scopes
        ]
        try:
            parts = [
                *beside,
                *(reflector.run() for reflector in self._reflectors),
                self._serve(reconciler),
                jobs.resync(cluster, cache, self._told, queue, settings),
                jobs.watch(cache, self._told, queue, settings),
            ]
            await until_one_ends([asyncio.create_task(part) for part in parts])
        finally:
            await progress.close()

    async def _serve(self, reconciler: Reconciler) -> None:
        """A job of which only a part is known yet would be taken for one that has lost the rest."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

        async def reconcile(key: JobKey) -> Requeue:
            return await metrics.measured(reconciler.reconcile(key))

        await serve(self._queue, reconcile, workers=self._settings.reconcilers)
