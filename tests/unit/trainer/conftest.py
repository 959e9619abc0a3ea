"""Pods with ranks of a few lines."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainer.pod import Pod

QUICK = """
import dtj_trainer.launch.supervisor as supervisor
supervisor.GRACE_SECONDS = 0.3
from dtj_trainer.launch.__main__ import main
main()
"""


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """pod(SCRIPT, **environment) starts a launcher, impatient with deaf ranks, on a script of the test's."""
    number, pods = itertools.count(), []

    def start(script: str, **environ: object) -> Any:
        folder = tmp_path / f"pod-{next(number)}"
        folder.mkdir()
        (folder / "script.py").write_text(script)
        one = Pod(folder, sys.executable, "-c", QUICK, str(folder / "script.py"), **environ)
        pods.append(one)
        return one

    yield start
    for one in pods:
        one.end()
