"""The operator's process: settings, logging, kopf, the workers. It may be killed at any time."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterable

import kopf
from dtj_api import names
from kubernetes.aio.config import ConfigException

from dtj_operator import credentials, handlers, webhook
from dtj_operator.cluster import Cluster
from dtj_operator.errors import ApiError, NotFound
from dtj_operator.informer import WATCHED_KINDS, Cache, Reflector
from dtj_operator.progress import ProgressReader
from dtj_operator.reconciler import Reconciler
from dtj_operator.settings import Settings
from dtj_operator.snapshot import JobKey
from dtj_operator.workqueue import WorkQueue, serve

logger = logging.getLogger("dtj_operator")

CANNOT_START = 2
# The API server takes objects nested 10,000 levels deep: one such job must not end the operator for all. Beyond 80,000
# the C stack, of 8 MiB, is too small.
RECURSION_LIMIT = 40_000


def main() -> None:
    """Exit codes: 0 after SIGTERM, 1 when a watch or a worker ended, 2 when it cannot start as it is configured."""
    try:
        settings = Settings.from_environment(os.environ)
    except ValueError as error:
        sys.exit(_complain(str(error)))
    _configure_logging(settings)
    sys.setrecursionlimit(RECURSION_LIMIT)
    try:
        asyncio.run(run(settings))
    except ConfigException as error:
        sys.exit(_complain(f"neither a service account nor a kubeconfig was found ({error}): set KUBECONFIG"))


def _complain(sentence: str) -> int:
    print(f"dtj-operator: {sentence}", file=sys.stderr)
    return CANNOT_START


def _configure_logging(settings: Settings) -> None:
    # kopf's formatter writes JSON that log collectors read
    kopf.configure(debug=False, quiet=False, log_format=_LOG_FORMATS[settings.log_format])
    level = settings.log_level.upper()
    logging.getLogger().setLevel(level)
    for chatty in ("kopf", "kubernetes", "aiohttp"):
        logging.getLogger(chatty).setLevel(max(logging.getLevelName(level), logging.WARNING))


_LOG_FORMATS = {"json": kopf.LogFormat.JSON, "text": kopf.LogFormat.FULL}


async def run(settings: Settings) -> None:
    """Run until a signal, or until a part of it ends: then all do, and Kubernetes starts a new one."""
    configuration = await credentials.load()
    cluster = Cluster(configuration)
    cache = Cache()
    queue: WorkQueue[JobKey] = WorkQueue(tenant=lambda key: key.namespace)
    progress = ProgressReader(queue.add, settings.progress_seconds)
    reconciler = Reconciler(cluster, cache, settings, progress)
    reflectors = [
        Reflector(cluster, cache, kind, namespace, queue.add)
        for kind in WATCHED_KINDS
        for namespace in _scopes(settings)
    ]
    try:
        await _wait_for_the_crd(cluster, settings)
        parts = [
            *(reflector.run() for reflector in reflectors),
            _work(queue, reconciler, reflectors, settings),
            _resync(cluster, cache, queue, settings),
            _watch_jobs(cache, queue, settings),
        ]
        if settings.webhook is not None:
            parts.append(webhook.serve(cluster, settings, settings.webhook))
        tasks = {asyncio.create_task(part) for part in parts}
        done, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for task in done:
            task.result()
    finally:
        await progress.close()
        await cluster.close()


async def _work(
    queue: WorkQueue[JobKey], reconciler: Reconciler, reflectors: Iterable[Reflector], settings: Settings
) -> None:
    """A job of which only a part is known yet would be taken for one that has lost the rest."""
    for reflector in reflectors:
        await reflector.synced.wait()
    await serve(queue, reconciler.reconcile, workers=settings.reconcilers)


async def _watch_jobs(cache: Cache, queue: WorkQueue[JobKey], settings: Settings) -> None:
    """kopf, for its watch alone."""
    registry = kopf.OperatorRegistry()
    handlers.register(registry, cache, queue)

    @kopf.on.login(registry=registry)
    async def login(**_: object) -> kopf.ConnectionInfo:
        return await credentials.for_kopf(await credentials.load())

    await kopf.operator(
        registry=registry,
        settings=kopf_settings(),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        liveness_endpoint=f"http://0.0.0.0:{settings.liveness_port}/healthz" if settings.liveness_port else None,
    )


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
    settings.process.ultimate_exiting_timeout = 5
    return settings


async def _resync(cluster: Cluster, cache: Cache, queue: WorkQueue[JobKey], settings: Settings) -> None:
    """Every job is listed and looked at once in a while: kopf does not tell what was deleted while its watch was down,
    and a watch can fall silent (https://github.com/nolar/kopf/issues/1276)."""
    while True:
        try:
            for scope in _scopes(settings):
                jobs, version = await cluster.list_jobs(scope)
                cache.replace_jobs(scope, jobs, version)
        except ApiError as error:
            logger.warning("cannot list the jobs: %s", error)
        for key in cache.jobs():
            queue.add(key)
        await asyncio.sleep(settings.resync_seconds)


async def _wait_for_the_crd(cluster: Cluster, settings: Settings) -> None:
    """kopf looks for its resources once, at its start."""
    while True:
        try:
            for scope in _scopes(settings):
                await cluster.list_jobs(scope)
            return
        except NotFound:
            logger.warning("the cluster does not know %s.%s yet: install the CRD", names.PLURAL, names.GROUP)
        except ApiError as error:
            logger.warning("cannot list the jobs yet: %s", error)
        await asyncio.sleep(1)


def _scopes(settings: Settings) -> list[str | None]:
    """Each namespace whose jobs are run; None for all."""
    return list(settings.namespaces) or [None]


if __name__ == "__main__":
    main()
