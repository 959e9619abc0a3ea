"""Attempts on a real API server: what follows a failure, while pods of the failed attempt are still ending."""

import time

from dtj_api import names

from tests.api.harness import TRAINING, Api, Object, Operator, eventually, run_all, script

AGAIN: Object = {"restart": {"backoffSeconds": 0}}


def pod_names(api: Api, attempt: int) -> list[str]:
    return [
        p["metadata"]["name"] for p in api.pods("gpt") if p["metadata"]["labels"][names.LABEL_ATTEMPT] == str(attempt)
    ]


def until_attempt(api: Api, attempt: int, workers: int = 2) -> list[str]:
    def all_there() -> list[str]:
        found = pod_names(api, attempt)
        return found if len(found) == workers else []

    return eventually(all_there)


def test_the_next_attempt_does_not_wait_for_pods_that_are_still_ending(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(**AGAIN))
    run_all(api, "gpt")
    api.end_pod("gpt-0-1", 137, "step 7\n")
    assert until_attempt(api, 1) == ["gpt-1-0", "gpt-1-1"]
    old = api.get("pods", "gpt-0-0")
    assert old is not None
    assert old["metadata"]["deletionTimestamp"], "no kubelet confirms its end"
    assert [s["metadata"]["name"] for s in api.list("services")] == ["gpt-1"]
    for pod in pod_names(api, 1):
        api.run_pod(pod)
    api.until("gpt", "Restarting", "False", "Restarted")
    status = api.status("gpt")
    assert (status["attempt"], status["restarts"], status["phase"]) == (1, 1, "Running")
    assert status["lastFailure"]["exitCode"] == 137
    told = {event["reason"] for event in api.list("events")}
    assert {"Restarting", "Restarted"} <= told


def test_an_operator_killed_between_two_attempts_goes_on_with_the_second(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(restart={"backoffSeconds": 1}))
    run_all(api, "gpt")
    api.end_pod("gpt-0-0", 1)
    api.until("gpt", "Restarting")
    operator.restart()
    until_attempt(api, 1)
    assert api.status("gpt")["restarts"] == 1
    assert not pod_names(api, 2)


def test_a_node_that_is_not_ready_is_given_up_after_its_time(api: Api, operator: Operator) -> None:
    node = f"node-of-{api.namespace}"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    api.request("POST", "/api/v1/nodes", {"metadata": {"name": node}, "status": {"conditions": [ready]}})
    api.submit("gpt", script(health={"lostNodeSeconds": 2}, **AGAIN))
    api.until("gpt", "Created")
    api.run_pod("gpt-0-0", node="n1")
    api.run_pod("gpt-0-1", node=node)
    api.until("gpt", "Running")
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    away = {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    api.request("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": [away]}})
    # as the node controller does to the pods of such a node
    api.set_pod("gpt-0-1", "Running", {"running": {}}, conditions=[{"type": "Ready", "status": "False"}])
    until_attempt(api, 1)
    failure = api.status("gpt")["lastFailure"]
    assert (failure["reason"], failure["node"], failure["worker"]) == ("NodeLost", node, 1)
    assert api.status("gpt")["recentRestarts"] == [], "the cluster's own doing does not count"


def test_a_suspended_job_waits_for_its_pods_and_goes_on_changed(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(**AGAIN))
    run_all(api, "gpt")
    path = api.path(names.PLURAL, "gpt")
    api.request("PATCH", path, {"spec": {"suspend": True}})
    api.until("gpt", "Suspended", "False", "Suspending")
    api.request("PATCH", path, {"spec": {"suspend": False}})
    assert not pod_names(api, 1), "what the first attempt saves must be there first"
    api.reap()
    api.until("gpt", "Suspended", "False", "Resumed")
    until_attempt(api, 1)
    api.request("PATCH", path, {"spec": {"suspend": True}})
    api.until("gpt", "Suspended", "True")
    api.request("PATCH", path, {"spec": {"workers": 3, "suspend": False}})
    until_attempt(api, 2, workers=3)
    assert api.status("gpt")["restarts"] == 0


def test_a_retained_claim_survives_its_job_and_serves_the_next_of_that_name(api: Api, operator: Operator) -> None:
    spec = {"workers": 2, "training": TRAINING, "checkpoint": {"size": "1Gi", "retain": "Retain"}}
    api.submit("gpt", spec)
    api.until("gpt", "Created")
    api.delete(names.PLURAL, "gpt")
    eventually(lambda: not api.list("services"))
    claim = api.get("persistentvolumeclaims", "gpt-checkpoints")
    assert claim is not None
    eventually(lambda: not api.reap() and not api.pods("gpt"))
    api.submit("gpt", spec)
    api.until("gpt", "Created")
    again = api.get("persistentvolumeclaims", "gpt-checkpoints")
    assert again is not None
    assert again["metadata"]["uid"] == claim["metadata"]["uid"]


def test_a_claim_that_was_retained_is_not_taken_by_a_job_that_would_not_say_so(api: Api, operator: Operator) -> None:
    api.submit("gpt", {"workers": 1, "training": TRAINING, "checkpoint": {"size": "1Gi", "retain": "Retain"}})
    api.until("gpt", "Created")
    api.delete(names.PLURAL, "gpt")
    eventually(lambda: not api.reap() and not api.pods("gpt"))
    api.submit("gpt", {"workers": 1, "training": TRAINING, "checkpoint": {"size": "1Gi"}})
    assert "PersistentVolumeClaim gpt-checkpoints" in api.until("gpt", "Created", "False", "NameTaken")["message"]
