"""What was measured, and what follows from it: medians and ratios. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks.operator.audit import CONTROLLER, Tally

MOMENTS = ("created", "running", "settled")


@dataclass(frozen=True)
class Run:
    """One contender once through one part.

    Attributes:
        part: `A`, `B`, `C30`, `S100`, ...
        seconds: from the first POST (C: from the failure) to each of `MOMENTS`; None for one that was not reached.
        reached: how many of the pods and jobs had come so far when the run ended.
        cpu: CPU seconds by process, from the first POST until all is quiet.
        memory: peaks by process, in MB.
        load: the machine's load average before the run.
    """

    part: str
    contender: str
    repeat: int
    jobs: int
    workers: int
    seconds: Mapping[str, float | None]
    reached: Mapping[str, int]
    finished: bool
    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    requests: tuple[Tally, ...] = ()
    load: float = 0.0
    note: str = ""

    @property
    def requests_per_job(self) -> float:
        return sum(tally.count for tally in self.requests) / self.jobs


@dataclass(frozen=True)
class Summary:
    """The repeats of one contender in one part; of figures the median.

    Attributes:
        spread: least and most of the seconds to `running`.
    """

    part: str
    contender: str
    jobs: int
    workers: int
    repeats: int
    finished: int
    seconds: Mapping[str, float | None]
    spread: tuple[float, float] | None
    reached: Mapping[str, int]
    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    requests_per_job: float
    requests: tuple[Tally, ...] = field(default=())
    note: str = ""

    def writes(self, resource: str) -> int:
        """The controller's writes to that resource, rehearsals left out."""
        verbs = ("create", "patch", "update")
        own = (t for t in self.requests if t.who == CONTROLLER and t.resource == resource and not t.dry_run)
        return sum(tally.count for tally in own if tally.verb in verbs)

    @property
    def control_plane_cpu(self) -> float:
        return sum(seconds for name, seconds in self.cpu.items() if name != CONTROLLER)


def summarize(runs: Iterable[Run]) -> list[Summary]:
    """One summary a part and contender, in the order in which they came."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.part, run.contender), []).append(run)
    return [_summary(group) for group in groups.values()]


def _summary(group: list[Run]) -> Summary:
    first, typical = group[0], sorted(group, key=_time_to_run)[(len(group) - 1) // 2]
    seconds = {moment: _median([run.seconds.get(moment) for run in group]) for moment in MOMENTS}
    times = [time for run in group if (time := run.seconds.get("running")) is not None]
    return Summary(
        part=first.part,
        contender=first.contender,
        jobs=first.jobs,
        workers=first.workers,
        repeats=len(group),
        finished=sum(run.finished for run in group),
        seconds=seconds,
        spread=(min(times), max(times)) if times else None,
        reached={moment: min(run.reached.get(moment, 0) for run in group) for moment in MOMENTS},
        cpu=_medians([run.cpu for run in group]),
        memory=_medians([run.memory for run in group]),
        requests_per_job=median(run.requests_per_job for run in group),
        requests=typical.requests,
        note=first.note,
    )


def _time_to_run(run: Run) -> float:
    time = run.seconds.get("running")
    return float("inf") if time is None else time


def _median(values: list[float | None]) -> float | None:
    """None where one repeat did not get there: a median of the others would flatter."""
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def _medians(maps: list[Mapping[str, float]]) -> dict[str, float]:
    keys = dict.fromkeys(key for one in maps for key in one)
    return {key: median(one.get(key, 0.0) for one in maps) for key in keys}


def as_json(runs: Iterable[Run]) -> list[dict[str, Any]]:
    return [asdict(run) for run in runs]
