"""Whole lives of a job on a cluster in memory, and the operator killed after every single write of them."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.operator.memory_cluster import MemoryCluster
from tests.unit.operator.reconciling import AGAIN, GANG, Operator, pods, run_all

Life = Iterator[None]


def until_it_runs(cluster: MemoryCluster, spec: Any) -> Life:
    cluster.submit("gpt", spec)
    yield
    run_all(cluster)
    yield


def a_life_that_succeeds(cluster: MemoryCluster) -> Life:
    yield from until_it_runs(cluster, GANG)
    for name in pods(cluster):
        cluster.end_pod(name, 0)
    yield


def a_life_that_fails(cluster: MemoryCluster) -> Life:
    yield from until_it_runs(cluster, GANG)
    cluster.end_pod("gpt-0-1", 137)
    yield


def a_life_that_fails_while_it_starts(cluster: MemoryCluster) -> Life:
    cluster.submit("gpt", GANG)
    yield
    cluster.end_pod("gpt-0-2", 2, message="no such file")
    yield


def a_life_that_waits_for_its_claim(cluster: MemoryCluster) -> Life:
    cluster.submit("gpt", {**GANG, "checkpoint": {"claimName": "mine"}})
    yield
    cluster.put(
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    )
    yield
    run_all(cluster)
    yield


def a_life_with_two_failures(cluster: MemoryCluster) -> Life:
    yield from until_it_runs(cluster, AGAIN)
    cluster.end_pod("gpt-0-1", 137)
    yield
    cluster.end_pod("gpt-1-2", 1)
    yield
    run_all(cluster)
    yield
    for name in pods(cluster):
        cluster.end_pod(name, 0)
    yield


def a_life_with_a_pause(cluster: MemoryCluster) -> Life:
    cluster.submit("gpt", {**AGAIN, "suspend": True})
    yield
    cluster.edit("gpt", suspend=False)
    yield
    run_all(cluster)
    yield
    cluster.edit("gpt", suspend=True)
    yield
    cluster.edit("gpt", suspend=False, workers=2)
    yield
    run_all(cluster)
    yield


def a_life_that_leaves_nothing(cluster: MemoryCluster) -> Life:
    cluster.submit("gpt", {**AGAIN, "cleanPodPolicy": "All", "success": {"policy": "Chief"}})
    yield
    run_all(cluster)
    yield
    cluster.end_pod("gpt-0-0", 0)
    yield


LIVES = [
    a_life_with_two_failures,
    a_life_with_a_pause,
    a_life_that_leaves_nothing,
    a_life_that_succeeds,
    a_life_that_fails,
    a_life_that_fails_while_it_starts,
    a_life_that_waits_for_its_claim,
]


async def live(life: Callable[[MemoryCluster], Life], die_after: int | None = None) -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.die_after = die_after
    operator = Operator(cluster)
    for _ in life(cluster):
        await operator.settle()
    return cluster


def end_state(cluster: MemoryCluster) -> Any:
    """All that must not depend on when the operator was killed: everything but times, uids and versions."""
    text = json.dumps([cluster.objects[key] for key in sorted(cluster.objects)], sort_keys=True)
    text = re.sub(r'"(uid|resourceVersion)": "[^"]*"', "", text)
    return re.sub(r"2026-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)


@pytest.mark.parametrize("life", LIVES)
async def test_killed_after_any_write_it_goes_on_where_it_was(life: Callable[[MemoryCluster], Life]) -> None:
    undisturbed = await live(life)
    events = {event["reason"] for event in undisturbed.events}
    assert undisturbed.writes > 4
    for die_after in range(1, undisturbed.writes + 1):
        cluster = await live(life, die_after)
        assert end_state(cluster) == end_state(undisturbed), f"killed after write {die_after}"
        assert set(cluster.creations.values()) == {1}, f"killed after write {die_after}: {cluster.creations}"
        assert {event["reason"] for event in cluster.events} <= events


async def test_a_life_in_few_writes() -> None:
    cluster = await live(a_life_that_succeeds)
    made = 1 + 1 + 1 + 3  # claim, network policy, service, pods
    status_patches = 4  # accepted, created, running, succeeded
    events = 3
    assert cluster.writes == made + status_patches + events
    assert cluster.status("gpt")["phase"] == "Succeeded"
