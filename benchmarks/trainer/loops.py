"""`make bench-trainer`: the trainer's loop beside a bare one of the same model, data and batches.

The bare loop is what one would write by hand: DDP or fully_shard, fused AdamW, clipping, the loss read every ten
steps. Ours is the whole of `train()`: sampler, metrics for Prometheus, progress, log, the question each step whether to
stop. Both run by turns in the same processes, so that what else the machine does meets both; a ratio is the median of
those of neighbouring turns. A third turn is ours with metrics off.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from io import StringIO
from typing import Any
from unittest.mock import patch

# prometheus_client decides at its import whether its values are shared between processes, as they are in pods
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="dtj-bench-"))

import torch
from dtj_api.layout import Ranks
from dtj_api.spec import RunConfig
from dtj_trainer import data, models, train
from dtj_trainer.data.dataset import Dataset
from dtj_trainer.distributed import World
from dtj_trainer.health.signals import StopRequest
from dtj_trainer.observe.log import Log
from dtj_trainer.observe.observer import Observer
from dtj_trainer.run_folder import RunFolder
from dtj_trainer.shape import model_shape
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from benchmarks.trainer.gang import Fields, GangFailed, forked, load

STEPS, WARM_UP = 20, 4
WAYS = ("bare", "ours", "unmeasured")
Turn = Callable[[], float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trainer.loops", description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--width", type=int, default=128)
    arguments = parser.parse_args()
    print("| strategy | ranks | ms a step, bare | ms, ours | ours / bare, speed | metrics on / off, speed |")
    print("|---|--:|--:|--:|--:|--:|", flush=True)
    for strategy in ("ddp", "fsdp"):
        for count in arguments.ranks:
            if strategy == "fsdp" and count == 1:
                continue
            fields = _fields(strategy, count, arguments.width)
            try:
                seconds = forked(partial(_turns, fields, count, arguments.repeats), Ranks(count, count))[0]
            except GangFailed as error:
                print(error, file=sys.stderr)
                return 1
            print(_row(strategy, count, seconds), flush=True)
    return 0


def _row(strategy: str, ranks: int, seconds: dict[str, list[float]]) -> str:
    bare, ours = (statistics.median(seconds[way]) * 1000 for way in ("bare", "ours"))
    speed = _ratio(seconds["bare"], seconds["ours"])
    metrics = _ratio(seconds["unmeasured"], seconds["ours"])
    return f"| {strategy} | {ranks} | {bare:.1f} | {ours:.1f} | {speed:.3f} | {metrics:.3f} |"


def _ratio(one: list[float], other: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def _fields(strategy: str, ranks: int, width: int) -> Fields:
    return {
        "model": {"name": "gpt", "dimensions": {"layers": 4, "width": width, "heads": 4}},
        "data": {"text": "tinydocs", "sequenceLength": 128},
        "steps": STEPS,
        "batch": {"global": 8 * ranks},
        "optimizer": {"learningRate": 0.003, "gradClip": 1.0},
        "strategy": strategy,
        "seed": 7,
    }


def _turns(fields: Fields, ranks: int, repeats: int, world: World) -> dict[str, list[float]]:
    """Seconds a step of each way's turns, on this rank."""
    config = load(fields, Ranks(ranks, ranks))
    dataset = data.load(config.training.data)
    turns: dict[str, Turn] = {
        "bare": partial(_bare, config, dataset, world),
        "ours": partial(_ours, config, dataset, world, measured=True),
        "unmeasured": partial(_ours, config, dataset, world, measured=False),
    }
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        # who is first changes
        for way in WAYS[repeat % 3 :] + WAYS[: repeat % 3]:
            world.sum(0.0)
            found[way].append(turns[way]())
    return found


def _ours(config: RunConfig, dataset: Dataset, world: World, *, measured: bool) -> float:
    marks: list[float] = []

    class Timed(train.Run):
        def train_step(self, step: int) -> None:
            marks.append(time.perf_counter())
            super().train_step(step)

        def finish(self, step: int) -> None:
            """Without the evaluation at the end."""
            marks.append(time.perf_counter())

        def evaluation_due(self, step: int) -> bool:
            return False

    class Silent(Observer):
        def step(self, step: int) -> None: ...

        def logged(self, step: int, **_: Any) -> None: ...

    with patch.object(train, "Run", Timed), patch.object(train, "Observer", Observer if measured else Silent):
        train.train(
            config=config,
            dataset=dataset,
            world=world,
            stop=StopRequest(leave=lambda: None),
            log=Log(world.rank, StringIO()),
            run_folder=RunFolder.make() if measured else None,
        )
    return (marks[-1] - marks[WARM_UP]) / (len(marks) - 1 - WARM_UP)


def _bare(config: RunConfig, dataset: Dataset, world: World) -> float:
    training = config.training
    model: nn.Module = models.build(model_shape(training, dataset.inputs, dataset.outputs), training.seed)
    if training.strategy == "fsdp":
        for block in model.blocks:  # type: ignore[union-attr]
            fully_shard(block)
        fully_shard(model, reshard_after_forward=False)
    elif world.size > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.optimizer.learning_rate, fused=True)
    order = torch.randperm(len(dataset.train))
    batch, began = training.per_process_batch(world.size), 0.0
    for step in range(STEPS):
        if step == WARM_UP:
            began = time.perf_counter()
        first = (step * world.size + world.rank) * batch
        inputs, targets = map(torch.from_numpy, dataset.train.batch(order[first : first + batch].numpy()))
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            loss.item()
    return (time.perf_counter() - began) / (STEPS - WARM_UP)


if __name__ == "__main__":
    sys.exit(main())
