"""`python -m benchmarks.trainer.bubbles`: who works when in each pipeline schedule, beside what the formula says.

The trainer's own pipeline runs for a few steps over blocks that sleep instead of computing: forward for one unit of
time, backward for one for the input's gradient and one for the weights'. So any number of ranks can be watched on two
cores: the devices are simulated, the schedules, the messages and the waiting are not. A step's bubble is the part of
ranks x time, from its first forward to its last backward pass, in which nobody sleeps.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from dtj_api.fields import decode
from dtj_api.layout import Layout, Ranks
from dtj_api.partition import SCHEDULES, stages
from dtj_api.training import Training
from dtj_trainer.distributed import World
from dtj_trainer.models.parts import Parts
from dtj_trainer.observe.log import Log
from dtj_trainer.parallel.spread import spread
from torch import Tensor, nn

from benchmarks.trainer.gang import forked

STEPS, WARM_UP = 3, 1
COLOURS = {"forward": "#2563eb", "input": "#d97706", "weight": "#16a34a"}


@dataclass(frozen=True)
class Work:
    """One rank's: seconds since some common moment."""

    kind: str
    start: float
    end: float


class _Sleep(torch.autograd.Function):
    """The tensor as it is, after so long; and its gradient likewise."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float, kind: str, log: list[Work]) -> Tensor:
        ctx.seconds, ctx.kind, ctx.log = seconds, kind, log
        if kind == "input":
            _sleep(seconds, "forward", log)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        _sleep(ctx.seconds, ctx.kind, ctx.log)
        return gradient, None, None, None


def _sleep(seconds: float, kind: str, log: list[Work]) -> None:
    start = time.perf_counter()
    time.sleep(seconds)
    log.append(Work(kind, start, time.perf_counter()))


class Block(nn.Module):
    """(B, 1) -> (B, 1)"""

    def __init__(self, seconds: float, log: list[Work]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.seconds, self.log = seconds, log

    def forward(self, x: Tensor) -> Tensor:
        through: Tensor = _Sleep.apply(x, self.seconds, "input", self.log)
        weight: Tensor = _Sleep.apply(self.weight, self.seconds, "weight", self.log)
        return through + weight


class Line(nn.Module):
    """Blocks in a line: (B,) -> logits (B, 2)."""

    parts = Parts(
        blocks="blocks",
        embed=lambda model, x: x.float().unsqueeze(-1) * model.scale,
        head=lambda model, x: x * model.ends,
        before=("scale",),
        after=("ends",),
    )

    def __init__(self, count: int, seconds: float, log: list[Work]) -> None:
        super().__init__()
        self.scale, self.ends = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2))
        self.blocks = nn.ModuleList(Block(seconds, log) for _ in range(count))

    def __deepcopy__(self, memo: dict[int, Any]) -> Line:
        """Each copy writes to the same log."""
        with torch.device("meta"):
            return Line(len(self.blocks), self.blocks[0].seconds, self.blocks[0].log)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Measured:
    """Bubbles of the steps after the first, and the last step of each rank."""

    bubbles: list[float]
    last: list[list[Work]]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trainer.bubbles", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--microbatches", type=int, nargs="*", default=[8, 16])
    parser.add_argument("--milliseconds", type=float, default=100, help="of a rank's forward pass of one microbatch")
    parser.add_argument("--svg", type=Path, help="draw the first number of microbatches")
    arguments = parser.parse_args()
    pictures: dict[str, list[list[Work]]] = {}
    print("| schedule | microbatches | bubble, measured | bubble by the formula |\n|---|--:|--:|--:|", flush=True)
    for schedule in SCHEDULES:
        for count in arguments.microbatches:
            found = measure(schedule, arguments.ranks, count, arguments.milliseconds / 1000)
            expected = formula(schedule, arguments.ranks, count)
            words = f"{expected:.3f}" if expected is not None else ""
            print(f"| {schedule} | {count} | {statistics.median(found.bubbles):.3f} | {words} |", flush=True)
            pictures.setdefault(schedule, found.last)
    if arguments.svg:
        arguments.svg.write_text(picture(pictures))
    return 0


def formula(schedule: str, ranks: int, microbatches: int) -> float | None:
    """(P-1)/(vM+P-1): Huang et al. 2019, and Narayanan et al. 2021 for v stages on each rank. None has been published
    for the others in this form."""
    rule = SCHEDULES[schedule]
    return None if rule.splits_backward else (ranks - 1) / (rule.per_rank[0] * microbatches + ranks - 1)


def measure(schedule: str, ranks: int, microbatches: int, seconds: float) -> Measured:
    """Of a pipeline of as few stages as the schedule has, each of one block."""
    training = decode(Training, _fields(schedule, microbatches), "")
    mesh = Layout(pipeline=ranks)
    count = stages(training, mesh)
    logs = forked(partial(_steps, training, mesh, count, seconds * ranks / count), Ranks(ranks, ranks))
    steps = [[logs[rank][step] for rank in range(ranks)] for step in range(WARM_UP, STEPS)]
    return Measured([bubble(step) for step in steps], steps[-1])


def bubble(step: Sequence[Sequence[Work]]) -> float:
    works = [work for rank in step for work in rank]
    span = max(work.end for work in works) - min(work.start for work in works)
    return 1 - sum(work.end - work.start for work in works) / (span * len(step))


def _fields(schedule: str, microbatches: int) -> dict[str, Any]:
    return {
        "model": {"name": "gpt"},
        "data": {"text": "tinydocs"},
        "steps": STEPS,
        "batch": {"perProcess": microbatches, "microbatches": microbatches},
        "strategy": "pipeline",
        "pipeline": {"schedule": schedule},
    }


def _steps(training: Training, mesh: Layout, count: int, seconds: float, world: World) -> list[list[Work]]:
    """This rank's work of each step."""
    log: list[Work] = []
    split = training.pipeline.__class__(schedule=training.pipeline.schedule, split=(1,) * count)
    given = training.__class__(**{**training.__dict__, "pipeline": split})
    inputs = torch.arange(training.batch.microbatches or 1)
    strategy = spread(lambda: Line(count, seconds, log), given, mesh, world, inputs[:1], Log(world.rank, StringIO()))
    found = []
    for _ in range(STEPS):
        world.sum(0.0)
        log.clear()
        strategy.forward_backward([(inputs, torch.zeros_like(inputs))])
        found.append(list(log))
    return found


def picture(schedules: dict[str, list[list[Work]]], width: int = 900) -> str:
    """A row for each rank, time from left to right; all schedules on one scale."""
    span = max(
        max(w.end for rank in s for w in rank) - min(w.start for rank in s for w in rank) for s in schedules.values()
    )
    row, left, scale = 16, 60, (width - 70) / span
    pieces, top = [], 24
    for place, (kind, colour) in enumerate(
        {"forward": "forward", "input": "input's gradient", "weight": "weights' gradients"}.items()
    ):
        pieces.append(f'<rect x="{left + 170 * place}" y="6" width="10" height="10" fill="{COLOURS[kind]}"/>')
        pieces.append(f'<text x="{left + 16 + 170 * place}" y="15">{colour}</text>')
    for name, ranks in schedules.items():
        pieces.append(f'<text x="8" y="{top + 14}" font-weight="bold">{name}</text>')
        start = min(work.start for rank in ranks for work in rank)
        for rank, works in enumerate(ranks):
            y = top + 20 + row * rank
            pieces.append(f'<text x="8" y="{y + 11}">rank {rank}</text>')
            for work in works:
                x, wide = left + (work.start - start) * scale, max(0.5, (work.end - work.start) * scale - 0.4)
                pieces.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{row - 3}" fill="{COLOURS[work.kind]}"/>'
                )
        top += 28 + row * len(ranks)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{top}" fill="white"/>', *pieces, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
