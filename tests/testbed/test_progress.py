"""How long is left: pure arithmetic on a plan and a clock."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from dtj_testbed.progress import Plan, Progress, duration


def test_lanes_run_side_by_side_so_the_longest_counts() -> None:
    plan = Plan([["compile", "link"], ["fetch"]], {"compile": 100, "link": 20, "fetch": 50})
    assert plan.left(now=0) == 120


def test_time_left_shrinks_while_a_step_runs_and_drops_when_it_ends() -> None:
    plan = Plan([["compile", "link"]], {"compile": 100, "link": 20})
    plan.started["compile"] = 0
    assert plan.left(now=40) == 80
    plan.finished["compile"] = 50
    assert plan.left(now=50) == 20


def test_a_late_step_still_expects_some_more_time() -> None:
    plan = Plan([["compile"]], {"compile": 100}, started={"compile": 0})
    assert plan.left(now=200) == pytest.approx(20)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (75, "1:15"), (3599.6, "60:00"), (-1, "0:00")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path))
    out, now = io.StringIO(), iter(range(100))
    with Progress([["dig"]], out=out, clock=lambda: float(next(now))) as progress, progress.step("dig"):
        pass
    assert "dig …" in out.getvalue()
    assert "dig: done in" in out.getvalue()
    assert "\x1b" not in out.getvalue()
