"""health.py and metrics.py: what is said of an operator that works, and of one that does not."""

import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import unused_port
from dtj_operator import health, metrics
from dtj_operator.informer import JobWatch
from dtj_operator.workqueue import Age

IDLE = Age(0.0, 0.0)


class Watch:
    kind = "Pod"

    def __init__(self, silent: float) -> None:
        self.silent = silent

    def silent_for(self) -> float:
        return self.silent


class StaleJobs(JobWatch):
    is_stale = True


@pytest.mark.parametrize(
    ("silent", "jobs", "age", "problem"),
    [
        (80.0, JobWatch(), IDLE, None),
        (80.0, JobWatch(), Age(waiting=30.0, working=59.0), None),
        (400.0, JobWatch(), IDLE, "the watch of Pods has been silent for 400 s"),
        (80.0, StaleJobs(), IDLE, "the watch of jobs does not bring what a list of them shows"),
        (80.0, JobWatch(), Age(700.0, 0.0), "a job has waited for 700 s to be looked at"),
        (80.0, JobWatch(), Age(0.0, 700.0), "a job has been looked at for 700 s"),
    ],
)
def test_what_no_longer_works_is_named(silent: float, jobs: JobWatch, age: Age, problem: str | None) -> None:
    found = health.problems([Watch(silent)], jobs, age)  # type: ignore[list-item]
    assert found == ([problem] if problem else [])


class Queue:
    def __len__(self) -> int:
        return 3

    def age(self) -> Age:
        return Age(1.5, 0.5)


@pytest.fixture
def state() -> Iterator[None]:
    collector = metrics.State(lambda: {"Running": 2}, Queue(), [Watch(7.0)], lambda: True)
    metrics.REGISTRY.register(collector)
    yield
    metrics.REGISTRY.unregister(collector)


async def test_health_and_metrics_are_served(state: None) -> None:
    found: list[str] = []
    port = unused_port()
    runner = await health.listen(port, lambda: found)
    await metrics.measured(_nothing())
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.get("/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
            found.append("all is lost")
            async with session.get("/healthz") as answer:
                assert (answer.status, await answer.text()) == (503, "all is lost\n")
            async with session.get("/metrics") as answer:
                told = await answer.text()
    finally:
        await runner.cleanup()
    for line in (
        'dtj_operator_jobs{phase="Running"} 2.0',
        "dtj_operator_queue_depth 3.0",
        "dtj_operator_queue_oldest_seconds 1.5",
        "dtj_operator_work_oldest_seconds 0.5",
        'dtj_operator_watch_age_seconds{kind="Pod"} 7.0',
        "dtj_operator_leading 1.0",
        'dtj_operator_reconciles_total{result="ok"} 1.0',
    ):
        assert line in told.splitlines()


async def _nothing() -> None:
    return None


def test_every_metric_is_documented_and_none_else(state: None) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(dtj_operator_\w+)`", page, re.MULTILINE))
    told = {metric.name + ("_total" if metric.type == "counter" else "") for metric in metrics.REGISTRY.collect()}
    assert documented == told
