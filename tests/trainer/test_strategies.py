"""Strategies through the real launcher. That they compute the same is shown in tests/equivalence; here they save, are
stopped, and are resumed by one another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dtj_trainer.checkpoint import reader

pytestmark = pytest.mark.torch

Make = Callable[..., dict[str, Any]]
Start = Callable[..., Any]
Alone = Callable[..., Any]

# what saves, and what goes on: strategy fields, workers, processes
DDP = ({"strategy": "ddp"}, 1, 2)
FSDP = ({"strategy": "fsdp"}, 1, 3)
HSDP = ({"strategy": "hsdp"}, 2, 2)
TENSOR = ({"strategy": "tensor", "tensor": {"sequenceParallel": True}}, 1, 2)
PIPELINE = ({"strategy": "pipeline"}, 1, 2)
HYBRID = ({"strategy": "hybrid", "mesh": {"shard": 2, "pipeline": 2}}, 2, 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [(DDP, FSDP), (FSDP, HSDP), (HSDP, TENSOR), (TENSOR, PIPELINE), (PIPELINE, HYBRID), (HYBRID, DDP)],
    ids=["ddp-fsdp", "fsdp-hsdp", "hsdp-tensor", "tensor-pipeline", "pipeline-hybrid", "hybrid-ddp"],
)
def test_a_checkpoint_of_one_strategy_is_resumed_by_another_as_if_nothing_had_been(
    tmp_path: Path, make_config: Make, gang: Start, alone: Alone, first: Any, second: Any
) -> None:
    for steps, (fields, workers, processes) in ((10, first), (20, second)):
        pods = gang(make_config(tmp_path / "c", steps=steps, every=10, **fields), workers, processes)
        assert pods.wait() == [0] * workers, pods.pods[0].text()
    resumed = pods.losses()
    truth = alone(make_config(steps=20)).losses()
    assert resumed.keys() == set(range(11, 21))
    assert all(loss == pytest.approx(truth[step], abs=2e-6) for step, loss in resumed.items())


@pytest.mark.parametrize("run", [FSDP, HYBRID], ids=["fsdp", "hybrid"])
def test_a_checkpoint_is_read_by_one_plain_process(
    tmp_path: Path, make_config: Make, gang: Start, run: tuple[Any, int, int]
) -> None:
    """Which loads them by the plain model's names, all and no others, and finds the loss that is recorded of them."""
    from dtj_trainer.evaluate import check_checkpoint

    fields, workers, processes = run
    config = make_config(tmp_path / "c", steps=10, activationCheckpointing="full", **fields)
    pods = gang(config, workers, processes)
    assert pods.wait() == [0] * workers, pods.pods[0].text()
    assert "equal within 1e-05" in check_checkpoint(tmp_path / "c", with_bigram=False)


def test_a_sharded_run_that_is_stopped_saves_first(tmp_path: Path, make_config: Make, gang: Start) -> None:
    from dtj_api.exit_codes import ExitCode

    pods = gang(make_config(tmp_path / "c", steps=100000, every=100000, strategy="fsdp"), 1, 2)
    pods.pods[0].wait_for("step", step=3)
    pods.pods[0].kill()
    assert pods.wait() == [ExitCode.STOPPED], pods.pods[0].text()
    _, manifest = reader.locate(tmp_path / "c")
    assert manifest.step >= 3
