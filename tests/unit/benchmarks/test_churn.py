"""churn.py: what is flat and what is not."""

import pytest

from benchmarks.operator.churn import PERIODS, Period, in_phase, summary


def test_growth_is_the_last_third_over_the_first_without_the_warm_up() -> None:
    warm_up = [Period(10, 50.0, 100.0, 900.0)] * 2
    rest = [Period(10, 100.0 + 10 * number, 20.0, 500.0 - 20 * number) for number in range(PERIODS - 2)]
    growth = summary(warm_up + rest)["last third over first"]
    # medians of the second and of the second but last of ten
    assert growth == {
        "memory_mb": pytest.approx(180 / 110, abs=1e-3),
        "cpu_ms": 1.0,
        "start_ms": pytest.approx(340 / 480, abs=1e-3),
    }


def test_a_job_is_waited_for_by_phase_and_attempt() -> None:
    ready = in_phase("Running", 1)
    assert not ready(None)
    assert not ready({"status": {"phase": "Running", "attempt": 0}})
    assert ready({"status": {"phase": "Running", "attempt": 1}})
