"""Sees when pods run and when jobs' statuses are settled: two watches that hold what the API server sends anyway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from benchmarks.operator.client import Client, Object
from benchmarks.operator.contenders import Contender
from benchmarks.operator.manifests import NAMESPACE

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_POLL = 0.05


class Observer:
    """
    Attributes:
        running: when each pod (its uid) was first seen running.
        settled: since when each job's status has been settled.
    """

    def __init__(self, contender: Contender, workers: int) -> None:
        self.running: dict[str, float] = {}
        self.settled: dict[str, float] = {}
        self.restarts = 0
        self._contender = contender
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def look(self, client: Client) -> None:
        """Begin."""
        running = f"{PODS}?fieldSelector=status.phase%3DRunning"
        self._tasks.append(asyncio.create_task(self._follow(client, running, self._see_pod)))
        if not self._contender.is_floor:
            jobs = self._contender.jobs_path()
            self._tasks.append(asyncio.create_task(self._follow(client, jobs, self._see_job)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """
        Raises:
            Exception: what ended a watch for good.
        """
        for task in self._tasks:
            if task.done():
                task.result()

    async def _follow(self, client: Client, path: str, see: Callable[[Object], None]) -> None:
        while True:  # the API server may end a watch; the next one begins with all there is
            async for event in client.events(path):
                see(event)
            await asyncio.sleep(_POLL)

    def _see_pod(self, event: Object) -> None:
        if event["type"] != "DELETED":
            self.running.setdefault(event["object"]["metadata"]["uid"], time.time())

    def _see_job(self, event: Object) -> None:
        job = event["object"]
        name = job["metadata"]["name"]
        if event["type"] != "DELETED" and self._contender.settled(job, self._workers, self.restarts):
            self.settled.setdefault(name, time.time())
        else:
            self.settled.pop(name, None)


@asynccontextmanager
async def looking(client: Client, contender: Contender, workers: int) -> AsyncIterator[Observer]:
    observer = Observer(contender, workers)
    await observer.look(client)
    try:
        yield observer
    finally:
        await observer.stop()


async def until(ready: Callable[[], bool], seconds: float, check: Callable[[], None]) -> bool:
    """Wait so long for `ready`; whether it came. `check` raises where there is nothing to wait for any more."""
    end = time.monotonic() + seconds
    while not ready():
        check()
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_POLL)
    return True
