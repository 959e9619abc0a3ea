"""Settings of a pipeline that change nothing in what is computed: whether they reach torch, the matrix cannot tell."""

from typing import Any

import pytest
from dtj_api.partition import SCHEDULES

pytestmark = pytest.mark.torch

MODEL = {"model": {"name": "gpt", "dimensions": {"layers": 8, "width": 16, "heads": 2}}}


def made(**fields: Any) -> dict[int, tuple[str, int, dict[int, list[str]]]]:
    """Of each of two ranks: the schedule, its microbatches, and the blocks of each stage."""
    from dtj_api.layout import Ranks
    from dtj_trainer import data
    from dtj_trainer.distributed import World
    from dtj_trainer.observe.log import Log
    from dtj_trainer.parallel.pipeline import Pipeline
    from dtj_trainer.train import Run

    from benchmarks.trainer.gang import BASE, forked, load

    ranks = Ranks(2, 2)
    config = load({**BASE, **MODEL, "strategy": "pipeline", **fields}, ranks)

    def look(world: World) -> tuple[str, int, dict[int, list[str]]]:
        run = Run(
            config=config, dataset=data.load(config.training.data), world=world, log=Log(world.rank), run_folder=None
        )
        strategy = run.strategy
        assert isinstance(strategy, Pipeline)
        stages = {
            number: [name for name, _ in stage.blocks.named_children()] for number, stage in strategy._stages.items()
        }
        return type(strategy._schedule).__name__, strategy._schedule._n_microbatches, stages

    return forked(look, ranks)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_schedule_is_torchs_of_that_name(schedule: str) -> None:
    name, microbatches, stages = made(pipeline={"schedule": schedule})[0]
    assert name == f"Schedule{SCHEDULES[schedule].torch_name}"
    assert microbatches == 4
    wanted = {1: [0], 2: [0, 3] if SCHEDULES[schedule].v_shaped else [0, 2]}
    assert list(stages) == wanted[SCHEDULES[schedule].per_rank[0]]


def test_stages_and_microbatches_are_those_that_are_given() -> None:
    pipeline = {"schedule": "loopedbfs", "stagesPerRank": 3, "split": [2, 1, 1, 2, 1, 1]}
    found = made(pipeline=pipeline, batch={"global": 24, "microbatches": 6})
    assert found[0] == ("ScheduleLoopedBFS", 6, {0: ["0", "1"], 2: ["3"], 4: ["6"]})
    assert found[1] == ("ScheduleLoopedBFS", 6, {1: ["2"], 3: ["4", "5"], 5: ["7"]})
