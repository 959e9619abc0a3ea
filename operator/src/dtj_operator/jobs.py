"""Where jobs come from: kopf's watch of them, and a list of them once in a while."""

import asyncio
import itertools
import logging

import kopf
from dtj_api import names

from dtj_operator import credentials, handlers
from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import ApiError, NotFound
from dtj_operator.informer import Cache, JobWatch
from dtj_operator.settings import Settings
from dtj_operator.snapshot import JobKey
from dtj_operator.tasks import until_one_ends
from dtj_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)

# of the rounds in which jobs are listed, those in which all are looked at
LOOK_AT_ALL = 10


class _NoDiffs(kopf.DiffBaseStorage):
    """No handler asks what has changed; working it out takes kopf half of its time."""

    def build(self, **_: object) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None


def kopf_settings() -> kopf.OperatorSettings:
    """No writes by kopf, no scanning (it needs rights over all CRDs and namespaces), watches that cannot hang."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = 290
    settings.watching.client_timeout = 300
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    # kopf's own grow to 21 s: events would come that late once the API server is back
    settings.networking.error_backoffs = (1, 2, 3, 5)
    settings.queueing.exit_timeout = 0.2
    settings.persistence.diffbase_storage = _NoDiffs()
    # else it kills the process so long after any of its tasks ended, also where it is begun anew
    settings.process.ultimate_exiting_timeout = None
    return settings


async def watch(cache: Cache, told: JobWatch, queue: WorkQueue[JobKey], settings: Settings) -> None:
    """Until SIGTERM comes: kopf sees to that too."""
    while True:
        try:
            await _watch(cache, told, queue, settings)
            return
        except Exception as error:  # noqa: BLE001  kopf's have no base in common; /healthz tells a watch that stays stale
            # kopf ends where its discovery of the API is broken off, or calls fail too often in a row
            logger.warning("the watch of jobs begins anew: %s", str(error) or type(error).__name__)
            await asyncio.sleep(1)


async def _watch(cache: Cache, told: JobWatch, queue: WorkQueue[JobKey], settings: Settings) -> None:
    """Not by kopf.operator: that waits at its end for every task of the process, reconcilers and calls among them."""
    registry = kopf.OperatorRegistry()
    handlers.register(registry, cache, told, queue)

    @kopf.on.login(registry=registry)
    async def login(**_: object) -> kopf.ConnectionInfo:
        return await credentials.for_kopf(await credentials.load())

    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=kopf_settings(),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
    )
    await until_one_ends(tasks)


async def resync(cluster: Cluster, cache: Cache, told: JobWatch, queue: WorkQueue[JobKey], settings: Settings) -> None:
    """Jobs are listed once in a while: kopf does not tell what was deleted while its watch was down, and a watch can
    fall silent. All are looked at in every LOOK_AT_ALL-th of these rounds, should anything else have been missed."""
    for number in itertools.count():
        try:
            news = await _compare(cluster, cache, told, settings)
        except ApiError as error:
            logger.warning("cannot list the jobs: %s", error)
            news = set()
        for key in news:
            queue.add(key)
        for key in cache.jobs() if number % LOOK_AT_ALL == 0 else ():
            queue.add(key, patient=True)
        await asyncio.sleep(settings.resync_seconds)


async def _compare(cluster: Cluster, cache: Cache, told: JobWatch, settings: Settings) -> set[JobKey]:
    """Bring the cache up to what lists show; the jobs for which that is news."""
    found: list[Object] = []
    news: set[JobKey] = set()
    for scope in settings.scopes:
        listed, version = await cluster.list_jobs(scope)
        gone, changed = cache.compare_jobs(scope, listed, version)
        for key in changed:
            raw = await cluster.get_job(*key)
            if raw is not None:
                cache.see_job(raw)
        news |= gone | changed
        found += listed
    told.compare(found)
    return news


async def wait_for_the_crd(cluster: Cluster, settings: Settings) -> None:
    """kopf looks for its resources once, at its start."""
    while True:
        try:
            for scope in settings.scopes:
                await cluster.list_jobs(scope)
            return
        except NotFound:
            logger.warning("the cluster does not know %s.%s yet: install the CRD", names.PLURAL, names.GROUP)
        except ApiError as error:
            logger.warning("cannot list the jobs yet: %s", error)
        await asyncio.sleep(1)
