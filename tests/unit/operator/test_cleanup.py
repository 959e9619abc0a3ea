"""policy/cleanup.py and the ends of a job: what is deleted when, deadlines, success."""

from dataclasses import replace
from typing import Any

import pytest
from dtj_operator.policy.lifecycle import decide
from dtj_operator.snapshot import Child, World
from dtj_operator.times import timestamp

from tests.unit.operator.builders import NOW, SETTINGS, ago, failed, pod, succeeded
from tests.unit.operator.worlds import status, world

SERVICE = Child("Service", "gpt-0", "s0", 0)
POLICY = Child("NetworkPolicy", "gpt-0", "n0", 0)
CLAIM = Child("PersistentVolumeClaim", "gpt-checkpoints", "c")


def over(*pods: Any, **fields: Any) -> World:
    done = status("Created", "Failed", completion_time=timestamp(ago(100)))
    return replace(world(*pods, status=done, **fields), children=(SERVICE, POLICY, CLAIM))


@pytest.mark.parametrize(
    ("policy", "removed", "discarded"),
    [("Running", ["gpt-0-0"], []), ("All", ["gpt-0-0", "gpt-0-1"], [SERVICE, POLICY]), ("None", [], [])],
)
def test_what_is_left_of_a_finished_job(policy: str, removed: list[str], discarded: list[Child]) -> None:
    decision = decide(over(pod(0), failed(1, 1), cleanPodPolicy=policy), NOW, SETTINGS)
    assert [p.name for p in decision.remove] == removed
    assert list(decision.discard) == discarded


def test_it_is_deleted_when_its_time_is_over() -> None:
    assert decide(over(ttlSecondsAfterFinished=100), NOW, SETTINGS).delete_job
    later = decide(over(ttlSecondsAfterFinished=130), NOW, SETTINGS)
    assert (later.delete_job, later.next_look.after) == (False, pytest.approx(30))


def test_what_earlier_attempts_left_goes_and_their_policy_stays_as_long_as_their_pods() -> None:
    old = pod(0, name="gpt-0-0", attempt=0)
    running = status("Created", "Running", attempt=1)
    seen = replace(world(pod(0, attempt=1), pod(1, attempt=1), old, status=running), children=(SERVICE, POLICY, CLAIM))
    decision = decide(seen, NOW, SETTINGS)
    assert decision.remove == (old,)
    assert decision.discard == (SERVICE,)
    assert decide(replace(seen, stale_pods=()), NOW, SETTINGS).discard == (SERVICE, POLICY)


def test_what_an_earlier_spec_asked_for_goes_but_a_claim_stays() -> None:
    monitor = Child("PodMonitor", "gpt", "m")
    seen = replace(world(status=status("Suspended"), suspend=False), children=(CLAIM, monitor))
    begun = replace(seen, job=replace(seen.job, status=status(attempt=1)))
    assert decide(begun, NOW, SETTINGS).discard == (monitor,)


def test_the_deadline_ends_a_job_whatever_its_rules_say() -> None:
    rules = [{"action": "RestartJob", "onReasons": ["DeadlineExceeded"]}]
    for conditions in (("Created", "Running"), ("Restarting",)):
        late = world(pod(0), pod(1), status=status(*conditions), activeDeadlineSeconds=60, failureRules=rules)
        decision = decide(late, NOW, SETTINGS)
        assert (decision.phase, decision.findings[-1].reason) == ("Failed", "DeadlineExceeded")
    early = world(pod(0), pod(1), status=status("Created", "Running"), activeDeadlineSeconds=70)
    assert decide(early, NOW, SETTINGS).next_look.after == pytest.approx(10)


@pytest.mark.parametrize(("policy", "phase"), [("AllWorkers", "Running"), ("Chief", "Succeeded")])
def test_success(policy: str, phase: str) -> None:
    gang = world(succeeded(0), pod(1), status=status("Created", "Running"), success={"policy": policy})
    assert decide(gang, NOW, SETTINGS).phase == phase


def test_the_chiefs_success_is_not_undone_by_a_worker_that_fell_over_because_of_it() -> None:
    gang = world(succeeded(0), failed(1, 1), status=status("Created", "Running"), success={"policy": "Chief"})
    assert decide(gang, NOW, SETTINGS).phase == "Succeeded"
