"""events.py: which transitions are told, and that telling them again tells nothing new."""

from dataclasses import replace
from datetime import timedelta

from dtj_api.status import Condition, JobStatus
from dtj_operator.events import MESSAGE_LIMIT, of_transition
from dtj_operator.snapshot import Job

from tests.unit.operator.builders import NOW

JOB = Job("ml", "gpt", "uid-1", 1, "1", {}, JobStatus(), {})
LATER = NOW + timedelta(seconds=90)


def condition(kind: str, status: str, reason: str, message: str = "words") -> Condition:
    return Condition(kind, status, reason, message, "2026-01-01T00:00:00Z", 1)  # type: ignore[arg-type]


def told(*conditions: Condition, job: Job = JOB) -> list[tuple[str, str]]:
    events = of_transition(job, JobStatus(conditions=conditions), NOW)
    return [(event["type"], event["reason"]) for event in events]


def test_what_is_told() -> None:
    assert told(condition("Created", "False", "Creating"), condition("Running", "False", "Starting")) == []
    assert told(condition("Created", "True", "GangCreated")) == [("Normal", "GangCreated")]
    assert told(condition("Created", "False", "InvalidSpec")) == [("Warning", "InvalidSpec")]
    assert told(condition("Created", "False", "WaitingForRemoval")) == [("Normal", "WaitingForRemoval")]
    ended = (condition("Running", "False", "JobFailed"), condition("Failed", "True", "OOMKilled"))
    assert told(*ended) == [("Warning", "OOMKilled")]


def test_a_restart_begins_and_ends_under_names_that_belong_together() -> None:
    begun, ended = condition("Restarting", "True", "OOMKilled"), condition("Restarting", "False", "Restarted")
    assert told(begun) == [("Warning", "Restarting")]
    known = replace(JOB, status=JobStatus(attempt=1, conditions=(begun,)))
    assert told(ended, job=known) == [("Normal", "Restarted")]
    again = list(of_transition(known, JobStatus(attempt=2, conditions=(begun,)), NOW))
    assert [event["reason"] for event in again] == ["Restarting"], "a second failure before the gang ran again"
    assert list(of_transition(known, JobStatus(attempt=1, conditions=(begun,)), NOW)) == []


def test_a_suspension_is_told_once_a_step() -> None:
    followers = (condition("Created", "False", "Suspended"), condition("Running", "False", "Suspended"))
    assert told(*followers, condition("Suspended", "True", "Suspended")) == [("Normal", "Suspended")]
    assert told(condition("Suspended", "False", "Suspending")) == [("Normal", "Suspending")]


def test_what_was_told_is_not_told_again() -> None:
    made = condition("Created", "True", "GangCreated")
    known = replace(JOB, status=JobStatus(conditions=(made,)))
    assert told(made, job=known) == []


def test_the_same_transition_has_the_same_name_and_another_job_of_that_name_another() -> None:
    new = JobStatus(conditions=(condition("Created", "True", "GangCreated"),))
    first, again = next(of_transition(JOB, new, NOW)), next(of_transition(JOB, new, LATER))
    assert first["metadata"]["name"] == again["metadata"]["name"]
    successor = next(of_transition(replace(JOB, uid="uid-2"), new, NOW))
    assert successor["metadata"]["name"] != first["metadata"]["name"]


def test_every_event_says_what_to_do_next_and_is_bounded() -> None:
    for kind in ("Created", "Running", "Succeeded"):
        event = next(of_transition(JOB, JobStatus(conditions=(condition(kind, "True", "X"),)), NOW))
        assert "kubectl" in event["message"]
    long = JobStatus(conditions=(condition("Failed", "True", "Error", "x" * 5000),))
    assert len(next(of_transition(JOB, long, NOW))["message"]) <= MESSAGE_LIMIT
