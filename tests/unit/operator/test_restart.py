"""policy/restart.py: how often a gang is restarted, after which pauses, and what sets the count back."""

from datetime import timedelta
from typing import Any

import pytest
from dtj_api.progress import Progress, SavedCheckpoint
from dtj_api.spec import Restart
from dtj_api.status import Attempt, JobStatus
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.failure import Verdict
from dtj_operator.policy.restart import backoff, follow_up, until_due
from dtj_operator.times import precise

from tests.unit.operator.builders import NOW, ago, failed
from tests.unit.operator.worlds import spec, status, world

CRASH = Verdict("SIGKILL", "worker 1 was killed", time=NOW, pod=failed(1, 137), worker=1, exit_code=137)
LOST = Verdict("NodeLost", "worker 1 is lost", time=NOW, pod=failed(1, 137), worker=1, disrupted=True)


def after(verdict: Verdict, restarts_ago: tuple[float, ...] = (), *, now: Any = NOW, **fields: Any) -> Decision:
    """What follows a failure where counted restarts were so many seconds ago."""
    known = status("Created", "Running", recent_restarts=tuple(precise(ago(s)) for s in restarts_ago))
    return follow_up(world(status=known, **fields), spec(**fields), verdict, now)


def test_the_next_attempt_is_written_down_with_the_cause() -> None:
    decision = after(CRASH)
    assert decision.phase == "Restarting"
    assert decision.begin is not None
    assert decision.begin.attempt == 1
    assert decision.recent_restarts == (precise(NOW),)
    assert decision.end is not None
    assert decision.end.failure is not None
    assert (decision.end.failure.attempt, decision.end.failure.node) == (0, "n1")
    told = {finding.kind: finding for finding in decision.findings}
    assert told["Restarting"].message == (
        "attempt 0 failed: worker 1 was killed; attempt 1 starts in 2s (restart 1 of 6 without progress)"
    )
    assert told["Created"].status == "False"


COUNTS: dict[str, tuple[tuple[float, ...], dict[str, Any], str, str]] = {
    "the last one allowed": ((50.0,), {"maxRestarts": 2}, "Restarting", "SIGKILL"),
    "one too many": ((50.0, 40.0), {"maxRestarts": 2}, "Failed", "MaxRestartsReached"),
    "those before the window do not count": (
        (900.0, 40.0),
        {"maxRestarts": 2, "windowSeconds": 600},
        "Restarting",
        "SIGKILL",
    ),
    "none allowed": ((), {"maxRestarts": 0}, "Failed", "SIGKILL"),
    "never": ((), {"policy": "Never"}, "Failed", "SIGKILL"),
}


@pytest.mark.parametrize(("restarts", "restart", "phase", "reason"), COUNTS.values(), ids=COUNTS.keys())
def test_how_often(restarts: tuple[float, ...], restart: dict[str, Any], phase: str, reason: str) -> None:
    decision = after(CRASH, restarts, restart=restart)
    assert decision.phase == phase
    assert reason in {finding.reason for finding in decision.findings}
    assert decision.end is not None
    assert decision.end.failure is not None
    assert decision.end.failure.reason == "SIGKILL"


def test_what_the_cluster_did_does_not_count() -> None:
    decision = after(LOST, (50.0,), restart={"maxRestarts": 1})
    assert decision.phase == "Restarting"
    assert decision.recent_restarts == (precise(ago(50)),)


def test_a_rule_of_the_jobs_comes_before_its_policy_and_its_words_are_told() -> None:
    rules = [{"action": "RestartJob", "onReasons": ["SIGKILL"], "message": "see the runbook"}]
    decision = after(CRASH, restart={"policy": "Never"}, failureRules=rules)
    assert decision.phase == "Restarting"
    assert "worker 1 was killed (see the runbook)" in decision.findings[2].message


def saved(step: int) -> SavedCheckpoint:
    return SavedCheckpoint(step, "/c", "2026-01-01T00:00:00Z", 1, "x")


def before(step: int | None = None, checkpoint: int | None = None) -> tuple[Attempt, ...]:
    first = Attempt(0, precise(ago(90)), precise(ago(60)), "SIGKILL", "", step, checkpoint)
    return (first, Attempt(1, precise(ago(60))))


PROGRESS = {
    "a newer checkpoint": (before(9, 5), Progress(12, 99, checkpoint=saved(10)), True),
    "the checkpoint it came from": (before(9, 5), Progress(8, 99, checkpoint=saved(5)), False),
    "more steps, but none saved": (before(9, 5), Progress(50, 99, checkpoint=saved(5)), False),
    "a later step where none is ever saved": (before(9), Progress(12, 99), True),
    "the same step again": (before(9), Progress(9, 99), False),
    "a script that tells nothing": (before(), None, False),
}


@pytest.mark.parametrize(("attempts", "progress", "resets"), PROGRESS.values(), ids=PROGRESS.keys())
def test_progress_sets_the_count_back(attempts: tuple[Attempt, ...], progress: Progress | None, resets: bool) -> None:
    known = status("Created", attempt=1, attempts=attempts, recent_restarts=(precise(ago(60)),))
    decision = follow_up(world(status=known).with_progress(progress), spec(), CRASH, NOW)
    assert decision.recent_restarts is not None
    assert len(decision.recent_restarts) == (1 if resets else 2)


def test_pauses_double_up_to_five_minutes() -> None:
    restart = Restart(backoff_seconds=2)
    assert [backoff(restart, n) for n in (1, 2, 3, 8, 9, 1000)] == [2, 4, 8, 256, 300, 300]
    assert backoff(Restart(backoff_seconds=0), 5) == 0


def waiting(*restarts_ago: float, begun: float) -> JobStatus:
    recent = tuple(precise(ago(s)) for s in restarts_ago)
    return status("Restarting", attempts=(Attempt(3, precise(ago(begun))),), recent_restarts=recent)


def test_the_pause_is_counted_from_the_failure_and_survives_the_operator() -> None:
    restart = Restart(backoff_seconds=10)
    assert until_due(waiting(50, 4, begun=4), restart, NOW) == pytest.approx(16)
    assert until_due(waiting(50, 4, begun=4), restart, NOW + timedelta(seconds=17)) < 0
    assert until_due(waiting(50, begun=4), restart, NOW) == pytest.approx(6), "not counted: the first pause"
    assert until_due(status("Running"), restart, NOW) == 0
