"""An operator whose watches are behind: it may find out late, but undoes nothing and makes nothing twice."""

import pytest
from dtj_operator.errors import Conflict

from tests.unit.operator.memory_cluster import MemoryCluster
from tests.unit.operator.reconciling import AGAIN, GANG, KEY, Operator, pods, run_all


async def lived(*, until: str, spec: object = GANG) -> tuple[MemoryCluster, Operator]:
    """A job that is about to be created, or runs, or has failed."""
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", spec)
    if until == "accepted":
        await operator.step()
        return cluster, operator
    await operator.settle()
    run_all(cluster)
    await operator.settle()
    if until == "failed":
        cluster.end_pod("gpt-0-1", 137)
        await operator.settle()
    return cluster, operator


def writes(cluster: MemoryCluster) -> tuple[int, list[str]]:
    return cluster.writes, pods(cluster)


async def test_pods_are_not_made_for_a_job_that_has_ended_since() -> None:
    cluster, operator = await lived(until="accepted")
    old = cluster.as_watched()
    later, _ = await lived(until="failed")
    cluster.objects = later.objects
    for name in pods(cluster):
        del cluster.objects["Pod", name]
    before = writes(cluster)
    reconciler = operator.process(old)
    with pytest.raises(Conflict):
        await reconciler.reconcile(KEY)
    assert writes(cluster) == before
    # the next look asks
    await reconciler.reconcile(KEY)
    assert writes(cluster) == before


async def test_pods_of_an_attempt_that_is_not_known_yet_are_not_taken_for_an_old_ones() -> None:
    cluster, operator = await lived(until="running", spec=AGAIN)
    behind = cluster.as_watched()
    cluster.end_pod("gpt-0-1", 137)
    await operator.settle()
    run_all(cluster)
    await operator.settle()
    # the watch of pods is ahead of that of jobs
    for pod in cluster.of_kind("Pod"):
        behind.see(pod)
    before = writes(cluster)
    assert [name for name in before[1] if name.startswith("gpt-1-")]
    with pytest.raises(Conflict):
        await operator.step(behind)
    assert writes(cluster) == before


async def test_a_pod_that_was_not_heard_of_is_not_taken_for_a_lost_one() -> None:
    cluster, operator = await lived(until="running")
    behind = cluster.as_watched()
    behind.lose(cluster.objects["Pod", "gpt-0-2"]["metadata"]["uid"])
    before = writes(cluster)
    await operator.step(behind)
    assert writes(cluster) == before
    assert cluster.status("gpt")["phase"] == "Running"


async def test_a_pod_that_is_lost_ends_the_attempt_once_the_api_server_says_so() -> None:
    cluster, operator = await lived(until="running")
    del cluster.objects["Pod", "gpt-0-2"]
    await operator.settle()
    assert cluster.status("gpt")["lastFailure"]["reason"] == "PodDeleted"


async def test_a_suspension_does_not_end_while_a_pod_lives_that_was_not_heard_of() -> None:
    cluster, operator = await lived(until="running")
    cluster.slow_to_end = True
    cluster.edit("gpt", suspend=True)
    await operator.step()
    behind = cluster.as_watched()
    for pod in cluster.of_kind("Pod"):
        behind.lose(pod["metadata"]["uid"])
    await operator.step(behind)
    assert cluster.condition("gpt", "Suspended")["status"] == "False"
