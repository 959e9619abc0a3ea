"""policy/startup.py and policy/running.py: how long a gang may take to start, and what follows."""

from typing import Any

import pytest
from dtj_operator.pods import Pod, Waiting
from dtj_operator.policy.lifecycle import decide

from tests.unit.operator.builders import NOW, SETTINGS, ago, pod
from tests.unit.operator.worlds import status, world


def slow(seconds: float | None, **changes: Any) -> Pod:
    """A worker that was placed so long ago and does not run."""
    placed = None if seconds is None else ago(seconds)
    return pod(1, phase="Pending", trainer_running=False, trainer_ready=False, placed_at=placed, **changes)


NO_IMAGE = (Waiting("trainer", "mine:1", "ErrImagePull", "not found"),)
CASES: dict[str, tuple[Pod, str, str, str]] = {
    "in time": (slow(50), "Restart", "Pending", "Starting"),
    "not placed": (slow(None), "Restart", "Pending", "Starting"),
    "too late": (slow(70), "Restart", "Restarting", "StartupTimeout"),
    "too late for an image": (slow(70, waiting=NO_IMAGE), "Restart", "Failed", "ImagePullFailed"),
    "too late, and that ends it": (slow(70), "Fail", "Failed", "StartupTimeout"),
    "too late, and that is told": (slow(70), "Report", "Pending", "StartupTimeout"),
}


@pytest.mark.parametrize(("worker", "action", "phase", "reason"), CASES.values(), ids=CASES.keys())
def test_a_gang_that_does_not_start(worker: Pod, action: str, phase: str, reason: str) -> None:
    health = {"startupTimeoutSeconds": 60, "action": action}
    gang = world(pod(0, placed_at=ago(80)), worker, status=status("Created"), health=health)
    decision = decide(gang, NOW, SETTINGS)
    assert decision.phase == phase
    assert reason in {finding.reason for finding in decision.findings}


def test_it_is_looked_at_again_when_the_time_is_over() -> None:
    health = {"startupTimeoutSeconds": 60}
    gang = world(pod(0, placed_at=ago(80)), slow(50), status=status("Created"), health=health)
    assert decide(gang, NOW, SETTINGS).next_look.after == pytest.approx(10)


def test_the_end_of_a_late_start_is_told() -> None:
    gang = world(pod(0), pod(1), status=status("Created", "Stalled", "Restarting"))
    told = {finding.kind: finding.reason for finding in decide(gang, NOW, SETTINGS).findings}
    assert told == {"Running": "AllWorkersRunning", "Restarting": "Restarted", "Stalled": "Started"}
