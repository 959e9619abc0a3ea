"""What is tried, in families, by seed or by write. A family is told the undisturbed life and which seeds to try."""

import os
import random
import zlib
from collections.abc import Callable, Iterable

from tests.chaos.faults import BrokenStart, Expiry, Kill, Outage, Refusals, Refused
from tests.chaos.proxy import Call, Disturbance
from tests.chaos.streams import TROUBLES, Lag, Watches
from tests.chaos.trial import Calm, Scenarios

# reduced, the tests show a sample; `make chaos` shows all
WHOLE = os.environ.get("DTJ_CHAOS") == "whole"
# of all writes, where not the whole is asked for
EVERY = 6
OUTAGE_SECONDS = 60.0 if WHOLE else 4.0

# how a write is refused, and whether it is carried out all the same; and in how many lives all are
WAYS = (("504", True), ("409", False), ("504", False), ("cut", True))
PARTS = 5

Family = Callable[[Calm, Iterable[int]], Scenarios]


def kills_after_the_answer(calm: Calm, _: Iterable[int]) -> Scenarios:
    return _kills(calm, answered=True)


def kills_before_the_answer(calm: Calm, _: Iterable[int]) -> Scenarios:
    return _kills(calm, answered=False)


def _kills(calm: Calm, *, answered: bool) -> Scenarios:
    """One life a write."""
    writes = list(enumerate(calm.writes, 1))
    chosen = writes if WHOLE else writes[2 * answered :: EVERY]
    return {f"write {number} ({label})": [Kill([number], answered=answered)] for number, label in chosen}


def refused_writes(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    """Every write refused once in every way, some of them in one life. A seed is a way and a remainder."""
    found: dict[str, list[Disturbance]] = {}
    for seed in seeds:
        kind, carried_out = WAYS[seed % len(WAYS)]
        rest = seed // len(WAYS) % PARTS
        name = f"seed {seed}, {kind}{' though carried out' if carried_out else ''} to part {rest} of the writes"
        found[name] = [Refused(kind, _part(rest), carried_out=carried_out)]
    return found


def _part(rest: int) -> Callable[[Call], bool]:
    """By what is written: numbers shift when a write is repeated."""
    return lambda call: zlib.crc32(call.label.encode()) % PARTS == rest


def refusals(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    """Calls refused or broken off, whether carried out or not."""
    return {f"seed {seed}": [Refusals(seed)] for seed in seeds}


def watches(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    troubles = {seed: TROUBLES[seed % len(TROUBLES)] for seed in seeds}
    return {f"seed {seed}, {trouble}": [Watches(seed, trouble)] for seed, trouble in troubles.items()}


def expired_lists(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    """Of an operator that starts when there is something to list."""
    return {f"seed {seed}, killed at {at}": [Expiry(seed), Kill([at])] for seed, at in _moments(calm, seeds, 6).items()}


def broken_starts(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    """In a life that is long enough for the consequences."""
    return {f"seed {seed}": [BrokenStart(1 + seed % 4), Watches(seed, "delayed")] for seed in seeds}


def outages(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    """Every other one mute."""
    return {
        f"seed {seed}, from write {at}": [Outage(at, OUTAGE_SECONDS, mute=seed % 2 == 1)]
        for seed, at in _moments(calm, seeds, 1).items()
    }


def _moments(calm: Calm, seeds: Iterable[int], first: int) -> dict[int, int]:
    """A write for each seed, neither before `first` nor one of the last."""
    return {seed: random.Random(seed).randint(first, len(calm.writes) - 2) for seed in seeds}


def lags(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    return _lags(calm, seeds, consistent=True)


def old_reads(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    """More than API servers do to those who ask for the newest state."""
    return _lags(calm, seeds, consistent=False)


def _lags(calm: Calm, seeds: Iterable[int], *, consistent: bool) -> Scenarios:
    """A restart at some write, after which the world is shown as it was some writes before."""
    found: dict[str, list[Disturbance]] = {}
    for seed in seeds:
        chance = random.Random(seed)
        at = chance.randint(3, len(calm.writes) - 2)
        since = chance.randint(1, at - 1)
        found[f"seed {seed}, killed at {at}, shown {since}"] = [Lag(at, since, consistent=consistent)]
    return found


def mixtures(calm: Calm, seeds: Iterable[int]) -> Scenarios:
    found: dict[str, list[Disturbance]] = {}
    for seed in seeds:
        chance = random.Random(seed)
        kills = Kill(chance.sample(range(1, len(calm.writes) - 1), 3), answered=chance.random() < 0.5)
        trouble = chance.choice(TROUBLES)
        found[f"seed {seed}, {trouble}"] = [kills, Refusals(seed), Watches(seed, trouble)]
    return found


# family -> how many seeds in the reduced form, and in the whole; those whose lives are long come first
FAMILIES: dict[Family, tuple[int, int]] = {
    watches: (2, 24),
    outages: (1, 4),
    mixtures: (1, 14),
    refusals: (1, 12),
    broken_starts: (1, 4),
    lags: (1, 10),
    old_reads: (1, 10),
    expired_lists: (1, 4),
    refused_writes: (1, len(WAYS) * PARTS),
    kills_after_the_answer: (1, 1),
    kills_before_the_answer: (1, 1),
}


def seeds(family: Family) -> list[int]:
    """DTJ_CHAOS_SEEDS, such as `7` or `100-119`; else the first so many."""
    given = os.environ.get("DTJ_CHAOS_SEEDS", "")
    if not given:
        return list(range(FAMILIES[family][WHOLE]))
    first, _, last = given.partition("-")
    return list(range(int(first), int(last or first) + 1))
