"""kopf's events -> the cache and the queue, nothing else: kopf neither retries events nor orders those of two."""

from typing import Any

import kopf
from dtj_api import names

from dtj_operator.informer import Cache
from dtj_operator.snapshot import JobKey
from dtj_operator.workqueue import WorkQueue


def register(registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue[JobKey]) -> None:
    """Jobs; their children have reflectors."""

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:
        raw = dict(event["object"])
        key = cache.lose_job(raw) if event["type"] == "DELETED" else cache.see_job(raw)
        if key is not None:
            queue.add(key)
