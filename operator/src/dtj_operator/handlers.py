"""kopf's events -> keys into the queue, nothing else: kopf does not retry events, nor order those of two objects."""

from typing import Any

import kopf
from dtj_api import names

from dtj_operator.snapshot import JobKey
from dtj_operator.workqueue import WorkQueue


def register(registry: kopf.OperatorRegistry, queue: WorkQueue[JobKey]) -> None:
    """Jobs, and pods by their job's label."""

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_changed(namespace: str | None, name: str, **_: Any) -> None:
        queue.add(JobKey(namespace or "", name))

    @kopf.on.event("v1", "pods", labels={names.LABEL_JOB: kopf.PRESENT}, registry=registry)
    async def pod_changed(namespace: str | None, labels: kopf.Labels, **_: Any) -> None:
        queue.add(JobKey(namespace or "", labels[names.LABEL_JOB]))
