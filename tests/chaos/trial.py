"""Many disturbed lives side by side, each judged by the undisturbed one."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtj_testbed import ApiServer

from tests.chaos.life import Stage
from tests.chaos.oracle import Record, judge
from tests.chaos.proxy import Disturbance

SIDE_BY_SIDE = int(os.environ.get("DTJ_CHAOS_SIDE_BY_SIDE", "0")) or 3 * (os.cpu_count() or 1)
logger = logging.getLogger(__name__)

# Events that one hindered write may cost: a status can be worth two.
EVENTS_A_WRITE = 2

# The disturbances of each life, by name.
Scenarios = Mapping[str, Sequence[Disturbance]]


@dataclass(frozen=True)
class Calm:
    """An undisturbed life. `writes`: what the operator wrote, in order, in words."""

    record: Record
    writes: tuple[str, ...]


async def calm_life(server: ApiServer, folder: Path) -> Calm:
    """
    Raises:
        AssertionError: two undisturbed lives differ, or one breaks a rule: nothing can be judged by them then.
    """
    async with Stage(server, folder) as stage:
        one, other = await asyncio.gather(stage.live(), stage.live())
    problems = judge(other.record(), one.record())
    assert not problems, problems
    return Calm(one.record(), tuple(call.label for call in one.proxy.calls if call.write))


async def play(server: ApiServer, folder: Path, calm: Calm, scenarios: Scenarios) -> str:
    """What went wrong, a line each, by scenario; empty when nothing did."""
    wrong: dict[str, list[str]] = {}
    async with Stage(server, folder) as stage:
        turns = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(name: str) -> None:
            async with turns:
                wrong[name] = await _disturbed(stage, calm, scenarios[name])
            logger.info("%s: %s", name, "; ".join(wrong[name]) or "as undisturbed")

        await asyncio.gather(*(one(name) for name in scenarios))
    return "\n".join(f"{name}: {problem}" for name, problems in wrong.items() for problem in problems)


async def _disturbed(stage: Stage, calm: Calm, disturbances: Sequence[Disturbance]) -> list[str]:
    try:
        life = await stage.live(*disturbances)
    except AssertionError as error:
        return [f"{error}; done to it: {', '.join(note for d in disturbances for note in d.notes)}"]
    idle = (d for d in disturbances if not d.done and not d.came_too_late(life.proxy))
    seen = [
        *(f"{type(d).__name__} never disturbed anything" for d in idle),
        *(p for d in disturbances for p in d.problems),
    ]
    if life.exits:
        seen.append(f"the operator ended by itself, {life.exits} times")
    hindered = life.kills + life.exits + sum(d.done for d in disturbances if d.hinders_writes)
    return [*seen, *judge(life.record(), calm.record, events_lost=EVENTS_A_WRITE * hindered)]
