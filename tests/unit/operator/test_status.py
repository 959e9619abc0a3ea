"""status.py, progress.py and settings.py: the small pure parts."""

import json
from datetime import timedelta

import pytest
from dtj_api.progress import Progress, SavedCheckpoint
from dtj_api.status import Condition, JobStatus, Workers, encode_status
from dtj_operator.policy.decision import Decision, Finding
from dtj_operator.progress import final_record, sound
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Job, World
from dtj_operator.status import merge_patch, report

from tests.unit.operator.builders import NOW, end, pod, succeeded


def world(status: JobStatus, **more: object) -> World:
    raw = encode_status(status)
    return World(Job("ml", "gpt", "uid-1", 2, "7", {}, status, raw), **more)  # type: ignore[arg-type]


RUNNING = JobStatus(
    phase="Running",
    attempt=0,
    workers=Workers(2),
    conditions=(Condition("Running", "True", "AllWorkersRunning", "both run", "2026-01-01T00:00:00Z", 1),),
)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    same = Decision(findings=(Finding("Running", "True", "AllWorkersRunning", "still"),))
    reported = report(world(RUNNING), same, NOW).condition("Running")
    assert reported is not None
    assert (reported.last_transition_time, reported.message) == ("2026-01-01T00:00:00Z", "still")
    over = Decision(phase="Failed", findings=(Finding("Running", "False", "JobFailed", "over"),))
    ended = report(world(RUNNING), over, NOW)
    condition = ended.condition("Running")
    assert condition is not None
    assert condition.last_transition_time == "2026-01-01T00:01:00Z"
    assert ended.completion_time == "2026-01-01T00:01:00Z"


def test_workers_are_counted() -> None:
    pods = {0: pod(0), 1: succeeded(1), 2: pod(2, phase="Pending", trainer_running=False, trainer_ready=False)}
    status = JobStatus(attempt=0, workers=Workers(4))
    counted = report(world(status, pods=pods), Decision(), NOW).workers
    assert counted == Workers(desired=4, active=2, ready=1, succeeded=1, failed=0, summary="1/4")


def test_nothing_new_is_no_patch_and_what_went_away_is_nulled() -> None:
    first = report(world(JobStatus()), Decision(phase="Pending"), NOW)
    assert merge_patch(encode_status(first), first) == {}
    old = {"phase": "Pending", "observedGeneration": 2, "progress": {"step": 1, "totalSteps": 2, "eta": "5s"}}
    new = report(world(JobStatus(phase="Pending"), progress=Progress(2, 2)), Decision(), NOW)
    assert merge_patch(old, new) == {
        "progress": {"step": 2, "eta": None, "epoch": 0},
        "conditions": [],
        "attempts": [],
        "recentRestarts": [],
    }


def test_rates_are_shown_as_they_are_told() -> None:
    told = Progress(2, 10, loss=2.5, samples_per_second=8.0, tokens_per_second=1024.0, mfu=0.41)
    shown = report(world(RUNNING, progress=told), Decision(), NOW).progress
    assert shown is not None
    assert (shown.loss, shown.samples_per_second, shown.tokens_per_second, shown.mfu) == (2.5, 8.0, 1024.0, 0.41)


@pytest.mark.parametrize("last", [None, Progress(10, 10, eta_seconds=3)])
def test_no_time_left_is_shown_once_the_job_is_over(last: Progress | None) -> None:
    running = report(world(RUNNING, progress=Progress(9, 10, eta_seconds=5)), Decision(), NOW)
    assert running.progress is not None
    assert running.progress.eta == "5s"
    status = report(world(running, progress=last), Decision(phase="Failed"), NOW)
    assert status.progress is not None
    assert (status.progress.eta, status.progress.eta_seconds) == (None, None)


def test_the_last_checkpoint_stays_when_a_record_has_none() -> None:
    saved = SavedCheckpoint(5, "/checkpoints/5", "2026-01-01T00:00:30Z", 10, "abc")
    first = report(world(RUNNING, progress=Progress(6, 10, checkpoint=saved)), Decision(), NOW)
    assert report(world(first, progress=Progress(7, 10)), Decision(), NOW + timedelta(seconds=3)).checkpoint == saved


@pytest.mark.parametrize(
    "record",
    [
        Progress(-1, 10),
        Progress(1, 2**70),
        Progress(1, 10, last_step_time="yesterday"),
        Progress(1, 10, first_step_time="2026-01-01"),
        Progress(1, 10, checkpoint=SavedCheckpoint(1, "x" * 2000, "2026-01-01T00:00:30Z", 1, "")),
        Progress(1, 10, checkpoint=SavedCheckpoint(1, "/x", "soon", 1, "")),
    ],
)
def test_a_record_the_status_could_not_hold_is_none(record: Progress) -> None:
    with pytest.raises(ValueError, match=" is "):
        sound(record)


def test_a_diverged_loss_is_left_out() -> None:
    assert sound(Progress(1, 10, loss=float("nan"), eval_loss=float("inf"), mfu=float("nan"))) == Progress(1, 10)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (json.dumps({"progress": {"step": 3, "totalSteps": 3}}), Progress(3, 3)),
        ('{"progress": {"step": 1e999, "totalSteps": 3}}', None),
        ("Traceback (most recent call last)", None),
        ("", None),
    ],
)
def test_last_words_hold_the_final_progress(message: str, expected: Progress | None) -> None:
    assert final_record(pod(0, end=end(0, message=message))) == expected


def test_settings_are_read_once_and_complained_of_in_a_sentence() -> None:
    settings = Settings.from_environment(
        {"DTJ_TRAINER_IMAGE": "x:1", "DTJ_NAMESPACES": "a, b,", "DTJ_HEALTH_PORT": "80"}
    )
    assert (settings.trainer_image, settings.namespaces, settings.health_port) == ("x:1", ("a", "b"), 80)
    for environ, words in (
        ({}, "DTJ_TRAINER_IMAGE is not set"),
        ({"DTJ_TRAINER_IMAGE": "x", "DTJ_LOG_LEVEL": "loud"}, "not one of debug, info"),
        ({"DTJ_TRAINER_IMAGE": "x", "DTJ_PROGRESS_SECONDS": "0"}, "not a number above 0"),
        ({"DTJ_TRAINER_IMAGE": "x", "DTJ_RECONCILERS": "many"}, "not a number above 0"),
    ):
        with pytest.raises(ValueError, match=words):
            Settings.from_environment(environ)
