"""kopf's events -> the cache and the queue, nothing else: kopf neither retries events nor orders those of two."""

from typing import Any

import kopf
from dtj_api import names

from dtj_operator.children import Object
from dtj_operator.informer import Cache, JobWatch
from dtj_operator.snapshot import JobKey
from dtj_operator.workqueue import WorkQueue


def register(registry: kopf.OperatorRegistry, cache: Cache, watch: JobWatch, queue: WorkQueue[JobKey]) -> None:
    """Jobs; their children have reflectors."""

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:
        raw: Object = dict(event["object"])
        ended = event["type"] == "DELETED"
        watch.hear(raw, ended=ended)
        key = cache.lose_job(raw) if ended else cache.see_job(raw)
        if key is not None:
            # what has begun is not to wait behind a thousand new ones
            queue.add(key, patient=(raw.get("status") or {}).get("attempt") is None)
