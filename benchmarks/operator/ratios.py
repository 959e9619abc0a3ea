"""Ratios of medians, and the bars they are held against. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.operator.audit import CONTROLLER
from benchmarks.operator.results import Summary

OURS = "dtj"
PEERS = ("jobset", "pytorchjob")
Table = Mapping[tuple[str, str], Summary]


@dataclass(frozen=True)
class Bar:
    """What a figure must at most, or at least, be."""

    what: str
    figure: str
    limit: float
    at_least: bool = False

    def met(self, figures: Mapping[str, float | None]) -> bool | None:
        """None where it was not measured."""
        value = figures.get(self.figure)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit


BARS = (
    Bar("A: all Running, ours over the floor", "A_running_over_floor", 1.1),
    Bar("B: all Running, ours over the floor", "B_running_over_floor", 1.2),
    Bar("B: all Running, faster peer over ours", "B_fastest_peer_over_ours", 1.5, at_least=True),
    Bar("B: API requests a job, all components", "B_requests_per_job", 19),
    Bar("C, 30 workers: all recreated, JobSet over ours", "C30_jobset_over_ours", 3, at_least=True),
    Bar("C, 300 workers: all recreated, JobSet over ours", "C300_jobset_over_ours", 3, at_least=True),
    Bar(
        "A: all Running, faster peer at default limits over ours", "A_fastest_default_peer_over_ours", 4, at_least=True
    ),
    Bar(
        "B: all Running, faster peer at default limits over ours", "B_fastest_default_peer_over_ours", 4, at_least=True
    ),
    Bar("B: controller's memory, MB", "B_controller_memory_mb", 150),
    Bar("B: controller's CPU, seconds", "B_controller_cpu_seconds", 20),
    Bar("ours: CPU a job, most jobs over fewest", "cpu_per_job_growth", 1.2),
    Bar("A: controller's memory, MB", "A_controller_memory_mb", 150),
    Bar("A: status patches", "A_status_patches_per_job", 4),
    Bar("A: events", "A_events_per_job", 4),
    Bar("A: POSTs a pod", "A_posts_per_pod", 1),
    Bar("B: POSTs a pod", "B_posts_per_pod", 1),
    Bar("B: status patches a job", "B_status_patches_per_job", 4),
    Bar("B: events a job", "B_events_per_job", 4),
)


def figures(summaries: Sequence[Summary]) -> dict[str, float | None]:
    """Every ratio and figure; None where a side did not get there, or was not measured."""
    table = {(s.part, s.contender): s for s in summaries}
    found: dict[str, float | None] = {}
    for part in dict.fromkeys(s.part for s in summaries):
        if part in ("A", "B"):
            found |= _of_creation(table, part)
        elif part.startswith("C"):
            found |= _of_restart(table, part)
    found |= _of_scale(table)
    return {name: value if value is None else round(value, 3) for name, value in found.items()}


def ratio(table: Table, part: str, above: str, below: str, moment: str = "running") -> float | None:
    """How many times as long `above` took as `below`."""
    top, bottom = table.get((part, above)), table.get((part, below))
    if top is None or bottom is None:
        return None
    slow, fast = top.seconds.get(moment), bottom.seconds.get(moment)
    return slow / fast if slow is not None and fast else None


def _of_creation(table: Table, part: str) -> dict[str, float | None]:
    found = {f"{part}_running_over_floor": ratio(table, part, OURS, "floor")}
    for suffix, kind in (("", ""), ("-default", "default_")):
        over = {peer: ratio(table, part, f"{peer}{suffix}", f"{OURS}{suffix}") for peer in PEERS}
        found |= {f"{part}_{kind}{peer}_over_ours": value for peer, value in over.items()}
        found[f"{part}_fastest_{kind}peer_over_ours"] = _least(over.values())
    ours = table.get((part, OURS))
    if ours is not None:
        found |= _of_ours(part, ours)
    for peer in PEERS:
        if (summary := table.get((part, peer))) is not None:
            found[f"{part}_{peer}_requests_per_job"] = summary.requests_per_job
    return found


def _least(values: Iterable[float | None]) -> float | None:
    """None where one is not known: it might be the least."""
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(PEERS) else None


def _of_ours(part: str, ours: Summary) -> dict[str, float | None]:
    pods = ours.jobs * ours.workers
    return {
        f"{part}_requests_per_job": ours.requests_per_job,
        f"{part}_controller_memory_mb": ours.memory.get(CONTROLLER),
        f"{part}_controller_cpu_seconds": ours.cpu.get(CONTROLLER),
        f"{part}_posts_per_pod": ours.writes("pods") / pods,
        f"{part}_status_patches_per_job": ours.writes("distributedtrainingjobs/status") / ours.jobs,
        f"{part}_events_per_job": ours.writes("events") / ours.jobs,
    }


def _of_restart(table: Table, part: str) -> dict[str, float | None]:
    return {
        f"{part}_jobset_over_ours": ratio(table, part, "jobset", OURS, "created"),
        f"{part}_running_jobset_over_ours": ratio(table, part, "jobset", OURS),
    }


def _of_scale(table: Table) -> dict[str, float | None]:
    """CPU and memory at growing numbers of jobs; part B is the last of them."""
    found: dict[str, float | None] = {}
    for (part, contender), summary in table.items():
        if contender == OURS and (part.startswith("S") or part == "B"):
            cpu = summary.cpu.get(CONTROLLER)
            found[f"cpu_ms_per_job_at_{summary.jobs}"] = None if cpu is None else cpu * 1000 / summary.jobs
            found[f"memory_mb_at_{summary.jobs}"] = summary.memory.get(CONTROLLER)
    ours = [s for (part, name), s in table.items() if name == OURS and part[0] in "SB" and s.cpu.get(CONTROLLER)]
    if len(ours) > 1:
        few, many = min(ours, key=lambda s: s.jobs), max(ours, key=lambda s: s.jobs)
        found["cpu_per_job_growth"] = (many.cpu[CONTROLLER] / many.jobs) / (few.cpu[CONTROLLER] / few.jobs)
    return found
