"""The whole reconcile on a cluster in memory, one rule of it at a time."""

from datetime import timedelta

import pytest
from dtj_api import names
from dtj_api.progress import Progress
from dtj_operator.cluster import Object
from dtj_operator.errors import Refused, Unavailable
from dtj_operator.workqueue import Requeue

from tests.unit.operator.builders import TRAINING
from tests.unit.operator.memory_cluster import MemoryCluster
from tests.unit.operator.reconciling import AGAIN, GANG, Operator, pods, run_all
from tests.unit.operator.test_whole_lives import a_life_that_fails, a_life_that_waits_for_its_claim, live

LONG_AWAY = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2025-12-31T00:00:00Z"}


async def test_the_verdict_is_written_before_the_others_are_stopped_and_the_dead_stay_for_their_logs() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", GANG)
    await operator.settle()
    run_all(cluster)
    await operator.settle()
    cluster.end_pod("gpt-0-1", 137)
    await operator.step()
    assert cluster.condition("gpt", "Failed")["reason"] == "SIGKILL"
    assert len(pods(cluster)) == 3
    await operator.settle()
    assert pods(cluster) == ["gpt-0-1"]
    finished = cluster.status("gpt")
    assert finished["workers"]["failed"] == 1
    del cluster.objects["Pod", "gpt-0-1"]
    await operator.settle()
    assert cluster.status("gpt") == finished
    assert pods(cluster) == []


async def test_a_pod_lost_before_all_were_created_is_made_again_and_afterwards_fails_the_job() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", GANG)
    await operator.step()
    await operator.step()
    del cluster.objects["Pod", "gpt-0-1"]
    await operator.settle()
    assert cluster.creations["Pod gpt-0-1"] == 2
    assert cluster.status("gpt")["phase"] == "Pending"
    del cluster.objects["Pod", "gpt-0-2"]
    await operator.settle()
    assert cluster.condition("gpt", "Failed")["message"].startswith("worker 2's pod was deleted")


@pytest.mark.parametrize("kind", ["Service", "NetworkPolicy"])
async def test_a_lost_service_or_network_policy_is_made_again(kind: str) -> None:
    cluster = await live(a_life_that_waits_for_its_claim)
    del cluster.objects[kind, "gpt-0"]
    await Operator(cluster).settle()
    assert (kind, "gpt-0") in cluster.objects
    assert cluster.status("gpt")["phase"] == "Running"


async def test_invalid_spec_makes_nothing_and_a_corrected_one_goes_on() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    job = cluster.submit("gpt", {"workers": 0, "template": {"spec": {"containers": "x"}}, "chekpoint": {}})
    await operator.settle()
    status = cluster.status("gpt")
    assert status["phase"] == "Invalid"
    assert "attempt" not in status
    message = cluster.condition("gpt", "Created")["message"]
    assert "spec.template.spec.containers" in message
    assert [kind for kind, _ in cluster.objects] == [names.KIND]
    job["spec"], job["metadata"]["generation"] = GANG, 2
    await operator.settle()
    assert cluster.condition("gpt", "Created")["status"] == "True"
    assert cluster.status("gpt")["observedGeneration"] == 2


async def test_every_fault_of_a_spec_is_told() -> None:
    cluster = MemoryCluster()
    cluster.submit("gpt", {"workers": 0, "chekpoint": {}, "training": TRAINING | {"stepps": 1}})
    await Operator(cluster).settle()
    message = cluster.condition("gpt", "Created")["message"]
    for words in ("spec.workers", "spec.chekpoint", "did you mean checkpoint?", "spec.training.stepps"):
        assert words in message


REFUSALS = {
    "malformed": ("Pod", Refused(422, "Invalid", 'Pod "x" is invalid: spec.foo'), "Invalid", "InvalidTemplate"),
    "unknown field": ("Pod", Refused(400, "BadRequest", 'unknown field "spec.foo"'), "Invalid", "InvalidTemplate"),
    "quota": ("Pod", Refused(403, "Forbidden", "exceeded quota: pods"), "Pending", "QuotaExceeded"),
    "policy": ("Pod", Refused(403, "Forbidden", 'violates PodSecurity "restricted"'), "Pending", "Forbidden"),
    "claim": ("PersistentVolumeClaim", Refused(422, "Invalid", "storage"), "Invalid", "InvalidCheckpoint"),
}


@pytest.mark.parametrize(("kind", "error", "phase", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_what_the_api_server_refuses_is_told_in_its_words_and_nothing_is_made(
    kind: str, error: Refused, phase: str, reason: str
) -> None:
    cluster = MemoryCluster()
    cluster.submit("gpt", GANG)
    cluster.refuse[kind] = error
    operator = Operator(cluster)
    assert (await operator.step()).backoff is (phase == "Pending")
    assert cluster.status("gpt")["phase"] == phase
    assert "attempt" not in cluster.status("gpt"), "the spec can still be corrected"
    condition = cluster.condition("gpt", "Created")
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert error.message in condition["message"]
    assert [kind for kind, _ in cluster.objects] == [names.KIND]
    del cluster.refuse[kind]
    await operator.settle()
    assert cluster.condition("gpt", "Created")["status"] == "True"


async def test_a_name_taken_by_somebody_else_is_told_until_it_is_free() -> None:
    cluster = MemoryCluster()
    cluster.put({"kind": "Pod", "metadata": {"name": "gpt-0-1"}})
    cluster.submit("gpt", GANG)
    operator = Operator(cluster)
    await operator.settle()
    condition = cluster.condition("gpt", "Created")
    assert condition["reason"] == "NameTaken"
    assert "Pod gpt-0-1 (of nobody)" in condition["message"]
    del cluster.objects["Pod", "gpt-0-1"]
    await operator.settle()
    assert cluster.condition("gpt", "Created")["status"] == "True"


async def test_children_of_an_earlier_job_of_the_same_name_are_waited_for() -> None:
    cluster = await live(a_life_that_fails)
    del cluster.objects[names.KIND, "gpt"]
    cluster.submit("gpt", GANG)
    operator = Operator(cluster)
    await operator.settle()
    assert cluster.condition("gpt", "Created")["reason"] == "WaitingForRemoval"
    assert cluster.status("gpt")["phase"] == "Pending"
    for key in [key for key in cluster.objects if key[0] != names.KIND]:
        del cluster.objects[key]
    await operator.settle()
    assert cluster.condition("gpt", "Created")["status"] == "True"


async def test_a_job_being_deleted_is_left_alone() -> None:
    cluster = MemoryCluster()
    job = cluster.submit("gpt", GANG)
    job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await Operator(cluster).step() == Requeue()
    assert cluster.writes == 0


async def test_a_waiting_image_is_told_and_does_not_end_the_job() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", GANG)
    await operator.settle()
    error = "failed to pull and unpack image: not found"
    cluster.set_pod("gpt-0-1", "Pending", {"waiting": {"reason": "ErrImagePull", "message": error}})
    await operator.settle()
    condition = cluster.condition("gpt", "Running")
    assert (condition["status"], condition["reason"]) == ("False", "ImagePullFailed")
    assert "worker 1 (pod gpt-0-1, node n1): image mine:1 cannot be pulled: failed to pull" in condition["message"]
    writes = cluster.writes
    again = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "mine:1"'}}
    cluster.set_pod("gpt-0-1", "Pending", again)
    await operator.settle()
    assert cluster.writes == writes, "the kubelet says both in turn, for ever"
    assert cluster.status("gpt")["phase"] == "Pending"


async def test_progress_is_shown_while_running_and_nothing_is_written_when_it_stands_still() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", GANG)
    await operator.settle()
    run_all(cluster)
    operator.progress.record = Progress(step=5, total_steps=10, loss=1.23456789, eta_seconds=79.2)
    await operator.settle()
    progress = cluster.status("gpt")["progress"]
    assert progress == {"step": 5, "totalSteps": 10, "epoch": 0, "loss": 1.2346, "etaSeconds": 80, "eta": "1m19s"}
    version = cluster.objects[names.KIND, "gpt"]["metadata"]["resourceVersion"]
    await operator.settle()
    assert cluster.objects[names.KIND, "gpt"]["metadata"]["resourceVersion"] == version


async def test_a_failed_gang_is_followed_by_another_under_new_names_and_the_old_one_is_not_waited_for() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", AGAIN)
    await operator.settle()
    run_all(cluster)
    await operator.settle()
    cluster.slow_to_end = True
    cluster.end_pod("gpt-0-1", 137, message="step 41")
    await operator.step()
    status = cluster.status("gpt")
    assert (status["attempt"], status["restarts"], status["phase"]) == (1, 1, "Restarting")
    assert status["lastFailure"]["reason"] == "SIGKILL"
    assert (
        status["lastFailure"] | {"attempt": 0, "rank": 1, "worker": 1, "node": "n1", "exitCode": 137}
        == status["lastFailure"]
    )
    assert not [name for name in pods(cluster) if name.startswith("gpt-1-")], "the attempt is written down first"
    await operator.settle()
    assert sorted(pods(cluster)) == [f"gpt-{attempt}-{worker}" for attempt in (0, 1) for worker in range(3)]
    assert [service["metadata"]["name"] for service in cluster.of_kind("Service")] == ["gpt-1"]
    run_all(cluster)
    await operator.settle()
    status = cluster.status("gpt")
    assert status["phase"] == "Running"
    assert cluster.condition("gpt", "Restarting")["reason"] == "Restarted"
    assert [(one["attempt"], one.get("reason")) for one in status["attempts"]] == [(0, "SIGKILL"), (1, None)]


async def test_a_job_of_somebody_elses_is_left_alone_completely() -> None:
    cluster = MemoryCluster()
    cluster.submit("gpt", {**GANG, "managedBy": "kueue.x-k8s.io/multikueue"})
    await Operator(cluster).settle()
    assert cluster.writes == 0


async def test_a_job_is_deleted_when_its_time_after_the_end_is_over() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", {**GANG, "ttlSecondsAfterFinished": 60})
    await operator.settle()
    for name in pods(cluster):
        cluster.end_pod(name, 0)
    await operator.step()
    assert (await operator.step()).after == pytest.approx(60, abs=1)
    operator.now += timedelta(seconds=61)
    await operator.step()
    assert (names.KIND, "gpt") not in cluster.objects


async def test_the_pause_before_a_restart_grows_and_an_operator_that_starts_meanwhile_keeps_to_it() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", AGAIN)
    await operator.settle()
    pauses = []
    for attempt in range(3):
        cluster.end_pod(f"gpt-{attempt}-1", 137)
        await operator.step()
        pauses.append((await operator.step()).after)
        await operator.settle()
    assert pauses == pytest.approx([2, 4, 8], abs=0.01)


async def test_nodes_are_asked_for_only_when_a_pod_on_them_is_in_doubt() -> None:
    cluster = MemoryCluster()
    operator = Operator(cluster)
    cluster.submit("gpt", AGAIN)
    await operator.settle()
    run_all(cluster)
    await operator.settle()
    assert cluster.nodes_asked_for == []
    cluster.put({"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [LONG_AWAY]}})
    cluster.objects["Pod", "gpt-0-2"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    await operator.step()
    assert set(cluster.nodes_asked_for) == {"n1"}
    assert cluster.status("gpt")["lastFailure"]["reason"] == "NodeLost"


class Overloaded(MemoryCluster):
    """Asks for a pause before anything is made, and breaks off what is deleted beside it."""

    overloaded = False

    async def create(self, manifest: Object, *, rehearse: bool = False) -> Object:
        if self.overloaded:
            raise Unavailable(429, "TooManyRequests", "please try again later", retry_after=7.0)
        return await super().create(manifest, rehearse=rehearse)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> Object | None:
        if self.overloaded:
            raise Unavailable(504, "Timeout", "it took too long")
        return await super().delete(kind, namespace, name, uid)


async def test_of_several_failures_the_pause_that_the_api_server_asks_for_counts() -> None:
    cluster = Overloaded()
    operator = Operator(cluster)
    cluster.submit("gpt", {**AGAIN, "restart": {"backoffSeconds": 0}})
    await operator.settle()
    run_all(cluster)
    await operator.settle()
    cluster.end_pod("gpt-0-1", 137)
    while cluster.status("gpt")["attempt"] == 0:
        await operator.step()
    cluster.overloaded = True
    with pytest.raises(Unavailable) as raised:
        await operator.step()
    assert raised.value.retry_after == 7.0
    cluster.overloaded = False
    await operator.settle()
    assert pods(cluster) == ["gpt-1-0", "gpt-1-1", "gpt-1-2"]
