"""A day of jobs in minutes: do memory and latency stay as they were?

    python -m benchmarks.operator.churn [--jobs 2880] [--at-a-time 20] [--workers 2]

2,880 jobs are one every 30 s for 24 hours. Each lives a whole life: submitted, run by pretended nodes, ended with
success, and deleted by the operator (ttlSecondsAfterFinished). One in ten fails once and is restarted, one in ten is
suspended and goes on. What is compressed is the time between the jobs: what grows with jobs shows, what grows with
hours alone does not.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from dtj_api import names

from benchmarks.operator import manifests
from benchmarks.operator.bed import Bed
from benchmarks.operator.client import Client, Object, RequestFailed
from benchmarks.operator.contenders import OURS
from benchmarks.operator.observer import PODS

PERIODS = 12
# caches, pools and the allocator fill up within the first of them
WARM_UP_PERIODS = 2
DEADLINE = 120.0
LEASE_OF_LIFE = 1


@dataclass(frozen=True)
class Period:
    """One of `PERIODS` parts of the day.

    Attributes:
        memory_mb: the operator's resident memory at its end.
        cpu_ms: of the operator, for each job of the period.
        start_ms: median from a job's submission to `Running` in its status.
    """

    jobs: int
    memory_mb: float
    cpu_ms: float
    start_ms: float


class Jobs:
    """The newest status of each job, as a watch brings it."""

    def __init__(self) -> None:
        self._jobs: dict[str, Object] = {}
        self._changed = asyncio.Condition()

    async def follow(self, client: Client) -> None:
        while True:
            async for event in client.events(OURS.jobs_path()):
                name = event["object"]["metadata"]["name"]
                async with self._changed:
                    if event["type"] == "DELETED":
                        self._jobs.pop(name, None)
                    else:
                        self._jobs[name] = event["object"]
                    self._changed.notify_all()

    async def until(self, name: str, ready: Callable[[Object | None], bool]) -> None:
        """
        Raises:
            TimeoutError: not within DEADLINE.
        """
        async with asyncio.timeout(DEADLINE), self._changed:
            await self._changed.wait_for(lambda: ready(self._jobs.get(name)))


def in_phase(phase: str, attempt: int) -> Callable[[Object | None], bool]:
    def ready(job: Object | None) -> bool:
        status = (job or {}).get("status", {})
        return bool(status.get("phase") == phase and status.get("attempt") == attempt)

    return ready


async def live(client: Client, jobs: Jobs, number: int, workers: int) -> float:
    """One job's whole life; seconds from its submission until it ran."""
    name, path = f"day-{number}", f"{OURS.jobs_path()}/day-{number}"
    manifest = manifests.dtj(name, workers)
    manifest["spec"]["ttlSecondsAfterFinished"] = LEASE_OF_LIFE
    begun = time.monotonic()
    await client.call("POST", OURS.jobs_path(), manifest)
    await jobs.until(name, in_phase("Running", 0))
    took = time.monotonic() - begun
    attempt = 0
    if number % 10 == 1:
        await end_pod(client, names.pod(name, 0, 0), failed=True)
        attempt = 1
    if number % 10 == 2:
        await client.call("PATCH", path, {"spec": {"suspend": True}})
        await jobs.until(name, in_phase("Suspended", 0))
        await client.call("PATCH", path, {"spec": {"suspend": False}})
        attempt = 1
    if attempt:
        await jobs.until(name, in_phase("Running", attempt))
    for worker in range(workers):
        await end_pod(client, names.pod(name, attempt, worker))
    await jobs.until(name, lambda job: job is None)
    return took


async def end_pod(client: Client, name: str, *, failed: bool = False) -> None:
    """As its node would report it."""
    pod = await client.call("GET", f"{PODS}/{name}")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = manifests.failed_status(pod, now)
    if not failed:
        body["status"]["phase"] = "Succeeded"
        body["status"]["containerStatuses"][0]["state"]["terminated"] |= {"exitCode": 0, "reason": "Completed"}
    await client.call("PATCH", f"{PODS}/{name}/status", body)


@asynccontextmanager
async def following(client: Client) -> AsyncIterator[Jobs]:
    jobs = Jobs()
    task = asyncio.create_task(jobs.follow(client))
    try:
        yield jobs
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def day(total: int, at_a_time: int, workers: int) -> list[Period]:
    """All periods, told as they end."""
    periods: list[Period] = []
    size = total // PERIODS
    with Bed([OURS.crd()] if OURS.crd else [], raised=True) as bed:
        OURS.start(bed, True)
        async with Client(bed.load_kubeconfig) as client, following(client) as jobs:
            for period in range(PERIODS):
                cpu = bed.cpu_seconds()["controller"]
                waiting = iter(range(period * size, (period + 1) * size))
                took: list[float] = []

                async def go_through(waiting: object = waiting, took: list[float] = took) -> None:
                    for number in waiting:  # type: ignore[attr-defined]
                        took.append(await live(client, jobs, number, workers))

                async with asyncio.TaskGroup() as group:
                    for _ in range(at_a_time):
                        group.create_task(go_through())
                used = bed.cpu_seconds()["controller"] - cpu
                periods.append(Period(size, resident_mb(bed), used / size * 1000, statistics.median(took) * 1000))
                tell(period, periods[-1])
    return periods


def resident_mb(bed: Bed) -> float:
    pages = int(Path(f"/proc/{bed.cluster.processes.pids()['controller']}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def tell(period: int, it: Period) -> None:
    print(
        f"period {period + 1:2} of {PERIODS}: {it.jobs} jobs, {it.memory_mb:6.1f} MB, {it.cpu_ms:5.1f} ms of CPU a job,"
        f" {it.start_ms:6.0f} ms until a job runs",
        file=sys.stderr,
        flush=True,
    )


def summary(periods: list[Period]) -> Object:
    """Medians of the last third over those of the first, warm-up left out; and all periods."""
    settled = periods[WARM_UP_PERIODS:]
    third = max(1, len(settled) // 3)

    def growth(field: str) -> float:
        first, last = ([getattr(period, field) for period in part] for part in (settled[:third], settled[-third:]))
        return float(round(statistics.median(last) / statistics.median(first), 3))

    ratios = {field: growth(field) for field in ("memory_mb", "cpu_ms", "start_ms")}
    return {"last third over first": ratios, "periods": [asdict(period) for period in periods]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2880)
    parser.add_argument("--at-a-time", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    try:
        periods = asyncio.run(day(arguments.jobs, arguments.at_a_time, arguments.workers))
    except ExceptionGroup as errors:
        wrong = errors.subgroup((RequestFailed, TimeoutError))
        if wrong is None:
            raise
        print(f"churn: a job did not live its life: {wrong.exceptions[0]}", file=sys.stderr)
        return 1
    print(orjson.dumps(summary(periods)).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
