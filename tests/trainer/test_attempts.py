"""Attempts that follow each other on one checkpoint volume, and those that should be gone."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import layout, reader
from dtj_trainer.checkpoint.writer import Directory
from dtj_trainer.errors import TrainerError

pytestmark = pytest.mark.torch

Make = Callable[..., dict[str, Any]]
Alone = Callable[..., Any]
Start = Callable[..., Any]
JOB = "6f1c-77"


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """become(N): runs in this process are attempt N of the job."""

    def set_environment(number: int) -> None:
        monkeypatch.setenv("DTJ_ATTEMPT", str(number))
        monkeypatch.setenv("DTJ_RENDEZVOUS_TOKEN", f"{JOB}-{number}")

    return set_environment


def resuming(made: dict[str, Any], resume: int | str) -> dict[str, Any]:
    return {**made, "checkpoint": {**made["checkpoint"], "resume": resume}}


def weights(folder: Path, step: int) -> bytes:
    return (folder / layout.folder_name(step) / layout.MODEL).read_bytes()


def steps(folder: Path) -> list[int | None]:
    return [layout.folder_step(path.name) for path in reader.newest_first(folder)]


def test_replaced_gang_ends_fenced_and_publishes_nothing_more(tmp_path: Path, make_config: Make, gang: Start) -> None:
    made = make_config(tmp_path, steps=100000, every=5, keep=1000, timeoutSeconds=3600)
    pods = gang(made, workers=2, processes=1, DTJ_ATTEMPT=0, DTJ_RENDEZVOUS_TOKEN=f"{JOB}-0")
    pods.pods[0].wait_for("checkpoint_saved")
    Directory(tmp_path, Attempt(1, f"{JOB}-1")).begin()
    there = set(steps(tmp_path))
    assert pods.wait() == [ExitCode.FENCED, ExitCode.PEER_LOST], pods.pods[0].text()
    failure = pods.pods[0].last_words().failure
    assert failure.reason == "Fenced"
    assert "attempt 1 of this job has it since" in failure.message
    assert "ended with rank 0" in pods.pods[1].last_words().failure.message
    assert set(steps(tmp_path)) <= there
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert not [line for pod in pods.pods for line in pod.lines if "text" in line]


def test_clock_of_rank_zero_makes_all_ranks_save(tmp_path: Path, make_config: Make, gang: Start) -> None:
    made = make_config(tmp_path, steps=100000, every=100000)
    made["checkpoint"]["everySeconds"] = 1
    pods = gang(made, processes=2)
    first = pods.pods[0].wait_for("checkpoint_saved")["step"]
    pods.pods[0].wait_for("step", step=first + 1)
    assert first in steps(tmp_path)
    pods.pods[0].kill()
    assert pods.wait() == [ExitCode.STOPPED], pods.pods[0].text()
    saved = [line["step"] for line in pods.pods[0].events("checkpoint_saved")]
    assert saved[0] == first
    assert len(saved) == len(set(saved)) >= 2
    assert saved[-1] == max(pods.losses())


def test_late_saves_disturb_no_loss(
    tmp_path: Path, make_config: Make, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtj_trainer.checkpoint.schedule import Schedule

    whole = alone(make_config(tmp_path / "whole", steps=20))
    monkeypatch.setattr(Schedule, "late", lambda self: True)
    late = alone(make_config(tmp_path / "c", steps=20, every=100))
    assert [line["step"] for line in late.events("checkpoint_saved")] == list(range(1, 21))
    assert late.losses() == whole.losses()
    assert weights(tmp_path / "c", 20) == weights(tmp_path / "whole", 20)


def test_straggler_is_refused_before_it_trains(
    tmp_path: Path, make_config: Make, alone: Alone, become: Callable[[int], None]
) -> None:
    become(1)
    alone(make_config(tmp_path, steps=10))
    become(0)
    lines: list[dict[str, Any]] = []
    with pytest.raises(TrainerError) as caught:
        alone(make_config(tmp_path, steps=20), lines)
    assert caught.value.code == ExitCode.FENCED
    assert not [line for line in lines if line["event"] == "step"]
    assert steps(tmp_path) == [10]


def test_named_step_begins_a_lineage_that_later_attempts_follow(
    tmp_path: Path, make_config: Make, alone: Alone, become: Callable[[int], None]
) -> None:
    whole = alone(make_config(tmp_path, steps=30, keep=9)).losses()
    expected = weights(tmp_path, 30)
    become(0)
    first = alone(resuming(make_config(tmp_path, steps=15, keep=9), 10))
    assert list(first.losses()) == [11, 12, 13, 14, 15]
    assert "superseded-*" in first.events("checkpoints_superseded")[0]["message"]
    assert sorted(p.name for p in tmp_path.glob("superseded-*")) == [
        "superseded-step-00000020",
        "superseded-step-00000030",
    ]
    assert steps(tmp_path) == [15, 10]
    become(1)
    second = alone(resuming(make_config(tmp_path, steps=30, keep=9), 10))
    assert next(iter(second.losses())) == 16
    assert (first.losses() | second.losses()).items() <= whole.items()
    assert weights(tmp_path, 30) == expected


def test_start_is_the_one_asked_for_though_attempt_zero_never_came_to_it(
    tmp_path: Path, make_config: Make, alone: Alone, become: Callable[[int], None]
) -> None:
    alone(make_config(tmp_path / "c", steps=20))
    become(1)
    with pytest.raises(TrainerError, match=r"spec\.checkpoint\.resume: \"never\"") as caught:
        alone(resuming(make_config(tmp_path / "c", steps=30), "never"))
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID
    assert steps(tmp_path / "c") == [20, 10]
    assert next(iter(alone(resuming(make_config(tmp_path / "c", steps=30), 10)).losses())) == 11


def test_never_is_for_the_first_attempt(
    tmp_path: Path, make_config: Make, alone: Alone, become: Callable[[int], None]
) -> None:
    become(0)
    assert next(iter(alone(resuming(make_config(tmp_path, steps=10), "never")).losses())) == 1
    become(1)
    assert next(iter(alone(resuming(make_config(tmp_path, steps=20), "never")).losses())) == 11


def test_checkpoint_withdrawn_between_look_and_load_is_replaced_by_the_next_older(
    tmp_path: Path, make_config: Make, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a fenced writer is, which a newer attempt may find before it goes."""
    from dtj_trainer.checkpoint import state

    whole = alone(make_config(tmp_path, steps=20)).losses()
    load = state.load_weights

    def withdrawn(folder: Path) -> Any:
        shutil.rmtree(tmp_path / "step-00000020", ignore_errors=True)
        return load(folder)

    monkeypatch.setattr(state, "load_weights", withdrawn)
    again = alone(make_config(tmp_path, steps=20)).losses()
    assert again == {step: loss for step, loss in whole.items() if step > 10}
