"""`python -m benchmarks.operator`: measure, print tables, keep the results. The last line of stdout is JSON."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import aiohttp
from dtj_testbed import TestbedError, binaries
from dtj_testbed.progress import Progress

from benchmarks.operator import machine, publish
from benchmarks.operator.client import RequestFailed
from benchmarks.operator.contenders import CONTENDERS, Contender
from benchmarks.operator.measure import Task, measure
from benchmarks.operator.results import MOMENTS, Run

_FULL = ("floor", "dtj", "jobset", "pytorchjob", "dtj-default", "jobset-default", "pytorchjob-default")
_QUICK = ("floor", "dtj")


@dataclass(frozen=True)
class Step:
    """One measurement to take."""

    task: Task
    contender: Contender
    repeat: int

    @property
    def name(self) -> str:
        task = self.task
        return f"{task.part} {task.jobs}x{task.workers} {self.contender.name} #{self.repeat}"


def main() -> int:
    """Exit codes: 0; 1 where programs are missing; 130 interrupted."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended then too
    runs: list[Run] = []
    steps = _plan(arguments)
    programs = [*binaries.API, *binaries.KWOK, *{step.contender.program for step in steps} - {""}]
    if absent := binaries.missing(programs):
        level = f"PYTHONPATH=testbed/src {sys.executable} -m dtj_testbed build --level peers"
        print(f"benchmark: {', '.join(absent)} not built yet: run `make bench-operator`, or `{level}`", file=sys.stderr)
        return 1
    try:
        _measure_all(steps, runs)
    except KeyboardInterrupt:
        print("\nbenchmark: interrupted; what was measured so far:", file=sys.stderr)
        print(publish.tables(runs))
        return 130
    report = publish.Report(runs, machine.facts(), _command())
    print(report.short())
    name = arguments.name or ("" if arguments.quick else f"operator-{datetime.datetime.now(datetime.UTC):%Y-%m-%d}")
    if name:
        report.write(name)
    print(json.dumps(report.figures))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="small sizes, one repeat, no peers, no files: for development")
    add("--parts", default="A,B,C,S", help="A one large job, B many small ones, C restart, S ours at growing numbers")
    add("--contenders", help=f"some of {', '.join(CONTENDERS)}")
    add("--workers", type=int, help="of the one job of part A (1000)")
    add("--jobs", type=int, help="of part B, two workers each (1000)")
    add("--restart", help="gangs of part C (30,300)")
    add("--repeats", type=int, help="of each measurement (3)")
    add("--default-repeats", type=int, default=1, help="of those at default client limits, which take minutes each (1)")
    add("--deadline", type=float, default=900, help="seconds after which a contender has not finished (900)")
    add("--name", help="results go to benchmarks/results/NAME.md, .json and .svg (operator-DATE; --quick: nowhere)")
    return parser


def _plan(arguments: argparse.Namespace) -> list[Step]:
    """Repeats outside, contenders inside: what the machine does beside hits all alike."""
    quick = arguments.quick
    names = arguments.contenders.split(",") if arguments.contenders else (_QUICK if quick else _FULL)
    if unknown := set(names) - set(CONTENDERS):
        raise SystemExit(f"--contenders: there is no {', '.join(sorted(unknown))}; choose of {', '.join(CONTENDERS)}")
    repeats = arguments.repeats or (1 if quick else 3)
    tasks = _tasks(arguments, quick)
    steps = []
    for repeat in range(1, repeats + 1):
        for task in tasks:
            for contender in (CONTENDERS[name] for name in names):
                beyond = not contender.raised and repeat > arguments.default_repeats
                if _takes_part(contender, task) and not beyond:
                    steps.append(Step(task, contender, repeat))
    return steps


def _tasks(arguments: argparse.Namespace, quick: bool) -> list[Task]:
    parts = arguments.parts.upper().split(",")
    jobs = arguments.jobs or (50 if quick else 1000)
    restart = arguments.restart or ("30" if quick else "30,300")
    found: list[Task] = []
    if "A" in parts:
        found.append(Task("A", 1, arguments.workers or (100 if quick else 1000), arguments.deadline))
    if "B" in parts:
        found.append(Task("B", jobs, 2, arguments.deadline, services=True))
    if "C" in parts:
        sizes = [int(size) for size in restart.split(",")]
        found += [Task(f"C{size}", 1, size, arguments.deadline, restart=True) for size in sizes]
    if "S" in parts:
        found += [Task(f"S{count}", count, 2, arguments.deadline) for count in (10, 100) if count < jobs]
    return found


def _takes_part(contender: Contender, task: Task) -> bool:
    if task.part.startswith("S"):
        return contender.name == "dtj"
    return not (task.restart and (contender.is_floor or not contender.raised))


def _measure_all(steps: Sequence[Step], runs: list[Run]) -> None:
    with Progress([[step.name for step in steps]]) as progress:
        for step in steps:
            with progress.step(step.name):
                run = _measure(step)
            runs.append(run)
            told = ", ".join(f"{moment} {run.seconds[moment]}" for moment in MOMENTS)
            print(f"{step.name}: {told}; load {run.load:.1f} {run.note}", file=sys.stderr)


def _measure(step: Step) -> Run:
    """A contender that breaks is told as not finished; the others go on."""
    try:
        return asyncio.run(measure(step.contender, step.task, step.repeat))
    except (TestbedError, RequestFailed, aiohttp.ClientError) as error:
        print(f"{step.name}: {error}", file=sys.stderr)
        nothing = {moment: 0 for moment in MOMENTS}
        run = Run(
            part=step.task.part, contender=step.contender.name, repeat=step.repeat,
            jobs=step.task.jobs, workers=step.task.workers,
            seconds=dict.fromkeys(MOMENTS), reached=nothing, finished=False, cpu={}, memory={},
        )  # fmt: skip
        return replace(run, note=str(error).partition("\n")[0], load=os.getloadavg()[0])


def _command() -> str:
    return " ".join(["python -m benchmarks.operator", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
