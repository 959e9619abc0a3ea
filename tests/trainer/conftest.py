"""Runs of the real trainer: in this process where one rank is enough, else through the real launcher over gloo."""

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainer.pod import Pod

# Small enough for milliseconds a step, large enough that a wrong gradient shows
TRAINING = {
    "model": {"name": "gpt", "dimensions": {"layers": 2, "width": 32, "heads": 2}},
    "data": {"text": "tinydocs", "sequenceLength": 32},
    "steps": 120,
    "batch": {"global": 12},
    "optimizer": {"learningRate": 0.003, "gradClip": 1.0},
    "evaluate": {"batches": 5},
    "log": {"everySteps": 1},
    "seed": 7,
    "timeoutSeconds": 60,
}


def config(directory: Path | None = None, *, every: int = 10, keep: int = 3, **fields: object) -> dict[str, Any]:
    """A RunConfig in its JSON form."""
    made: dict[str, Any] = {"training": {**TRAINING, **fields}}
    if directory is not None:
        made["checkpoint"] = {"directory": str(directory), "everySteps": every, "keepLast": keep}
    return made


@dataclass(frozen=True)
class Gang:
    """The pods of one attempt."""

    pods: list[Pod]

    def wait(self) -> list[int]:
        return [pod.wait() for pod in self.pods]

    def losses(self) -> dict[int, float]:
        return {line["step"]: line["loss"] for line in self.pods[0].events("step")}


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Callable[..., Gang]]:
    """gang(CONFIG, workers=1, processes=1, only=None, **environment): start the pods of an attempt, or `only` one."""
    number, pods = itertools.count(), []

    def start(
        config: dict[str, Any], workers: int = 1, processes: int = 1, only: int | None = None, **environ: object
    ) -> Gang:
        port = free_port()
        made = []
        for worker in range(workers) if only is None else [only]:
            place = {
                "WORLD_SIZE": workers * processes,
                "LOCAL_WORLD_SIZE": processes,
                "NODE_RANK": worker,
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": port,
                "OMP_NUM_THREADS": 1,
                "DTJ_CONFIG": json.dumps(config),
            }
            made.append(Pod(tmp_path / f"pod-{next(number)}", **place | environ))
        pods.extend(made)
        return Gang(made)

    yield start
    for one in pods:
        one.end()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def make_config() -> Callable[..., dict[str, Any]]:
    return config


@pytest.fixture
def alone() -> Callable[..., "Lone"]:
    """alone(CONFIG): one rank in this process, to its end or its TrainerError."""
    return run_alone


@dataclass(frozen=True)
class Lone:
    """What a run in this process logged."""

    lines: list[dict[str, Any]]

    def losses(self) -> dict[int, float]:
        return {line["step"]: line["loss"] for line in self.lines if line["event"] == "step"}

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]


def run_alone(raw: dict[str, Any], lines: list[dict[str, Any]] | None = None) -> Lone:
    import io

    import torch
    from dtj_api.layout import Ranks
    from dtj_trainer import config as configuration
    from dtj_trainer import data
    from dtj_trainer.distributed import World
    from dtj_trainer.health.signals import StopRequest
    from dtj_trainer.observe.log import Log
    from dtj_trainer.train import train

    torch.set_num_threads(1)
    stream = io.StringIO()
    run = configuration.load(None, {"DTJ_CONFIG": json.dumps(raw)}, Ranks())
    kept: list[dict[str, Any]] = [] if lines is None else lines
    try:
        train(
            config=run,
            dataset=data.load(run.training.data),
            world=World(0, 1, torch.device("cpu")),
            stop=StopRequest(leave=lambda: None),
            log=Log(0, stream),
            run_folder=None,
        )
    finally:
        kept.extend(json.loads(line) for line in stream.getvalue().splitlines())
    return Lone(kept)
