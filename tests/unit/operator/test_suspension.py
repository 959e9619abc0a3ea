"""policy/suspension.py, as the lifecycle applies it: stop, keep, go on."""

from dataclasses import replace
from datetime import timedelta

import pytest
from dtj_api.status import Condition
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.lifecycle import decide
from dtj_operator.snapshot import World

from tests.unit.operator.builders import NOW, SETTINGS, ago, failed, pod, succeeded
from tests.unit.operator.worlds import status, world

ON = {"suspend": True}


def told(decision: Decision) -> dict[str, tuple[str, str]]:
    return {finding.kind: (finding.status, finding.reason) for finding in decision.findings}


def test_pods_are_deleted_and_waited_for() -> None:
    decision = decide(world(pod(0), pod(1, deletion_due=NOW), status=status("Created", "Running"), **ON), NOW, SETTINGS)
    assert [p.worker for p in decision.remove] == [0]
    assert decision.phase == "Suspended"
    assert told(decision)["Suspended"] == ("False", "Suspending")
    assert decision.next_look.after


def test_a_pod_that_has_ended_is_left_until_it_is_gone() -> None:
    decision = decide(world(succeeded(0), pod(1), status=status("Created", "Running"), **ON), NOW, SETTINGS)
    assert [p.worker for p in decision.remove] == [0, 1]
    ended = replace(failed(0, 143), deletion_due=NOW + timedelta(seconds=20))
    decision = decide(world(ended, status=status("Created"), **ON), NOW, SETTINGS)
    assert told(decision)["Suspended"] == ("False", "Suspending")


def test_with_no_pod_left_it_is_suspended() -> None:
    decision = decide(world(status=status("Created", "Running", "Restarting"), **ON), NOW, SETTINGS)
    assert told(decision) == {
        "Created": ("False", "Suspended"),
        "Running": ("False", "Suspended"),
        "Restarting": ("False", "Suspended"),
        "Suspended": ("True", "Suspended"),
    }
    assert decision.end is not None
    assert decision.end.failure is None


@pytest.mark.parametrize(("seconds_overdue", "suspended"), [(10, False), (31, True)])
def test_a_lost_node_does_not_hold_it(seconds_overdue: float, suspended: bool) -> None:
    stuck = pod(1, deletion_due=ago(seconds_overdue), disruption="DeletionByTaintManager")
    decision = decide(world(stuck, status=status("Created", "Running"), **ON), NOW, SETTINGS)
    assert (told(decision)["Suspended"][0] == "True") == suspended


def test_a_job_created_suspended_makes_nothing_and_its_faults_are_told() -> None:
    new = replace(status(), attempt=None, attempts=(), start_time=None)
    assert told(decide(world(status=new, **ON), NOW, SETTINGS))["Suspended"] == ("True", "Suspended")
    wrong = decide(world(status=new, workers=0, **ON), NOW, SETTINGS)
    assert told(wrong)["Created"] == ("False", "InvalidSpec")
    assert wrong.begin is None


def test_it_goes_on_as_the_next_attempt_and_its_time_begins_anew() -> None:
    decision = decide(world(status=status("Suspended"), suspend=False, activeDeadlineSeconds=1), NOW, SETTINGS)
    assert decision.begin is not None
    assert (decision.begin.attempt, decision.begin.resets_start) == (1, True)
    assert told(decision)["Suspended"] == ("False", "Resumed")


def suspending() -> World:
    begun = Condition("Suspended", "False", "Suspending", "", "2026-01-01T00:00:00Z", 1)
    known = status("Created")
    known = replace(known, conditions=(*known.conditions, begun))
    return world(pod(0, deletion_due=NOW + timedelta(seconds=20)), status=known, suspend=False)


def test_what_was_begun_is_ended_first() -> None:
    decision = decide(suspending(), NOW, SETTINGS)
    assert decision.begin is None
    assert told(decision)["Suspended"] == ("False", "Suspending")
    assert told(decide(replace(suspending(), pods={}), NOW, SETTINGS))["Suspended"] == ("True", "Suspended")


def test_a_finished_job_is_not_suspended() -> None:
    over = status("Created", "Succeeded")
    assert decide(world(succeeded(0), failed(1, 1), status=over, **ON), NOW, SETTINGS) == Decision()
