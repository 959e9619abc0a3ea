"""Log lines, time left, container limits."""

import io
import json
from pathlib import Path

import pytest
from dtj_trainer.launch.container import oom_kills, processors
from dtj_trainer.observe.eta import Estimate
from dtj_trainer.observe.log import Log


def test_line_is_json_with_names_in_camel_case_and_no_nan() -> None:
    stream = io.StringIO()
    Log(3, stream).warning("step", eval_loss=float("nan"), total_steps=5, left_out=None)
    line = json.loads(stream.getvalue())
    assert list(line) == ["time", "level", "rank", "event", "evalLoss", "totalSteps"]
    assert (line["level"], line["rank"], line["evalLoss"]) == ("warning", 3, "nan")


@pytest.mark.parametrize(
    ("step", "evaluations", "saves"),
    [(0, 4, 3), (39, 3, 3), (50, 2, 2), (75, 1, 2), (80, 1, 1), (99, 1, 1)],
)
def test_time_left_counts_evaluations_and_saves(step: int, evaluations: int, saves: int) -> None:
    """Of 100 steps, evaluated every 25, saved every 40 and at the end."""
    estimate = Estimate(total_steps=100, evaluate_every=25, save_every=40)
    assert estimate.seconds_left(step) is None
    for seconds in (0.5, 0.5, 9.0):
        estimate.step_took(seconds)
    estimate.pause_took("evaluation", 10.0)
    estimate.pause_took("save", 1000.0)
    assert estimate.seconds_left(step) == pytest.approx((100 - step) * 0.5 + evaluations * 10.0 + saves * 1000.0)
    assert estimate.seconds_left(100) == 0.0


@pytest.mark.parametrize(("limit", "expected"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None)])
def test_processors_are_cut_to_the_containers_limit(tmp_path: Path, limit: str, expected: int | None) -> None:
    free = processors(tmp_path)
    (tmp_path / "cpu.max").write_text(limit)
    assert processors(tmp_path) == (expected or free)


@pytest.mark.parametrize(("quota", "expected"), [("100000", 1), ("50000", 1), ("-1", None)])
def test_processors_by_cgroups_of_the_first_version(tmp_path: Path, quota: str, expected: int | None) -> None:
    free = processors(tmp_path)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert processors(tmp_path) == (expected or free)


def test_oom_kills_by_cgroups_of_the_first_version(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert oom_kills(tmp_path) == 2


def test_oom_kills(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert oom_kills(tmp_path) == 1
