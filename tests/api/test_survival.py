"""Deletions and kills at bad moments: nothing is left, nothing is made twice, nobody else is touched."""

import threading
import urllib.error

import pytest
from dtj_api import names

from tests.api.harness import Api, Operator, eventually, run_all, script


def gone(api: Api) -> bool:
    api.reap()
    left = [
        o["metadata"]["name"] for plural in ("pods", "services", "persistentvolumeclaims") for o in api.list(plural)
    ]
    assert not left, left
    return True


def test_deleted_job_leaves_nothing_even_while_the_operator_is_down(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(checkpoint={"size": "1Gi"}))
    run_all(api, "gpt")
    operator.kill()
    api.delete(names.PLURAL, "gpt")
    assert api.get(names.PLURAL, "gpt") is None, "no finalizer holds it"
    eventually(lambda: gone(api), 90)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_job_deleted_and_created_at_once_under_the_same_name(api: Api, operator: Operator, policy: str) -> None:
    api.submit("gpt", script(workers=3, checkpoint={"size": "1Gi"}))
    old = api.job("gpt")["metadata"]["uid"]
    run_all(api, "gpt")
    api.delete(names.PLURAL, "gpt", propagationPolicy=policy)

    def resubmitted() -> bool:
        api.reap()
        try:
            return bool(api.submit("gpt", script(workers=2)))
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
            return False

    eventually(resubmitted, 90)

    def created() -> bool:
        api.reap()
        assert api.condition("gpt", "Created")["status"] == "True"
        return True

    eventually(created, 90)
    pods = api.pods("gpt")
    assert len(pods) == 2
    assert old not in {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
    for pod in pods:
        api.run_pod(pod["metadata"]["name"])
    api.until("gpt", "Running")


def test_job_deleted_while_it_is_being_created(api: Api, operator: Operator) -> None:
    for _ in range(3):
        api.submit("gpt", script(workers=20))
        eventually(lambda: len(api.list("pods")) > 2)
        api.delete(names.PLURAL, "gpt")
        eventually(lambda: gone(api), 90)
    api.submit("gpt", script(workers=2))
    api.until("gpt", "Created")


def test_killed_at_every_stage_it_goes_on(api: Api, operator: Operator) -> None:
    """The operator is killed again and again; nothing is made twice, and the job ends as it should."""
    seen: dict[str, set[str]] = {}

    def look() -> None:
        for pod in api.pods("gpt"):
            seen.setdefault(pod["metadata"]["name"], set()).add(pod["metadata"]["uid"])

    operator.kill()
    api.submit("gpt", script(workers=12, checkpoint={"size": "1Gi"}))
    operator.start()
    eventually(lambda: len(api.list("pods")) > 3)
    operator.restart()
    look()
    api.until("gpt", "Created")
    operator.restart()
    look()
    run_all(api, "gpt")
    operator.kill()
    for worker in range(11):
        api.end_pod(f"gpt-0-{worker}", 0)
    operator.start()
    eventually(lambda: api.status("gpt")["workers"]["succeeded"] == 11)
    operator.kill()
    api.end_pod("gpt-0-11", 5, "disk on fire\n")
    operator.start()
    assert "exited with 5: disk on fire" in api.until("gpt", "Failed")["message"]
    look()
    assert len(seen) == 12
    assert all(len(uids) == 1 for uids in seen.values())


def test_killed_at_random_moments_of_many_jobs(api: Api, operator: Operator) -> None:
    jobs = [f"job-{i}" for i in range(8)]
    for job in jobs:
        api.submit(job, script(workers=3))
    for _ in range(4):
        # the pause is the point here: the kill must fall anywhere in the operator's start and work
        threading.Event().wait(0.9)
        operator.restart()
    for job in jobs:
        api.until(job, "Created")
        assert [p["metadata"]["name"] for p in api.pods(job)] == [f"{job}-0-{worker}" for worker in range(3)]
        assert api.status(job)["attempt"] == 0


def test_two_jobs_do_not_touch_each_other(api: Api, operator: Operator) -> None:
    api.submit("a", script())
    api.submit("a-0", script())
    run_all(api, "a")
    run_all(api, "a-0")
    api.end_pod("a-0-1", 1)
    assert "pod a-0-1" in api.until("a", "Failed")["message"]
    assert api.status("a-0")["phase"] == "Running"
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in api.pods("a-0"))


def test_name_taken_by_somebody_else(api: Api, operator: Operator) -> None:
    api.create("pods", {
        "metadata": {"name": "gpt-0-1"},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    })  # fmt: skip
    api.submit("gpt", script())
    assert "Pod gpt-0-1 (of nobody)" in api.until("gpt", "Created", "False", "NameTaken")["message"]
    theirs = api.get("pods", "gpt-0-1")
    assert theirs is not None
    assert "deletionTimestamp" not in theirs["metadata"]
    api.delete("pods", "gpt-0-1", gracePeriodSeconds=0)
    api.until("gpt", "Created")


def test_sigterm_ends_it_at_once_and_with_success(api: Api, operator: Operator) -> None:
    api.submit("gpt", script())
    api.until("gpt", "Created")
    assert operator.process is not None
    operator.process.terminate()
    assert operator.process.wait(3) == 0
