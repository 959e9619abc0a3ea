"""Tables in Markdown that can be read in a terminal too. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.operator.audit import CONTROLLER, Tally
from benchmarks.operator.contenders import CONTENDERS
from benchmarks.operator.ratios import BARS
from benchmarks.operator.results import Summary

_PROGRAMS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok")
# kinds of requests a table names; the rest is added up
_MOST_ROWS = 28


def heading(part: str, summary: Summary) -> str:
    jobs, workers = summary.jobs, summary.workers
    if part.startswith("C"):
        return f"{part}: one of {workers} workers fails; seconds from its failure"
    many = f"{jobs} jobs" if jobs > 1 else "1 job"
    return f"{part}: {many} x {workers} workers; seconds from the first POST"


def times(summaries: Sequence[Summary]) -> str:
    """How long each contender took in one part, and what it cost."""
    head = (
        "contender", "created", "running", "least-most", "settled", "controller CPU s", "controller peak MB",
        "control plane CPU s", "requests/job", "",
    )  # fmt: skip
    return table(head, [_row(summary) for summary in summaries])


def _row(summary: Summary) -> list[str]:
    spread = f"{summary.spread[0]:.1f}-{summary.spread[1]:.1f}" if summary.spread and summary.repeats > 1 else ""
    return [
        CONTENDERS[summary.contender].title,
        *(_seconds(summary.seconds[moment]) for moment in ("created", "running")),
        spread,
        _seconds(summary.seconds["settled"]),
        f"{summary.cpu.get(CONTROLLER, 0):.1f}",
        f"{summary.memory.get(CONTROLLER, 0):.0f}",
        f"{summary.control_plane_cpu:.1f}",
        f"{summary.requests_per_job:.1f}",
        _remark(summary),
    ]


def _remark(summary: Summary) -> str:
    remarks = [summary.note] if summary.note else []
    if summary.finished < summary.repeats:
        far = ", ".join(f"{count} {moment}" for moment, count in summary.reached.items())
        remarks.append(f"{summary.repeats - summary.finished} of {summary.repeats} not finished: {far}")
    return "; ".join(remarks)


def processes(summaries: Sequence[Summary]) -> str:
    """CPU seconds of every process of the control plane."""
    rows = [
        [CONTENDERS[s.contender].title, *(f"{s.cpu.get(name, 0):.1f}" for name in (CONTROLLER, *_PROGRAMS))]
        for s in summaries
    ]
    return table(("CPU s", CONTROLLER, *_PROGRAMS), rows)


def requests(summaries: Sequence[Summary]) -> str:
    """Requests a job by component, verb and resource."""
    counts: dict[str, dict[str, float]] = {}
    for summary in summaries:
        for tally in summary.requests:
            row = counts.setdefault(_kind(tally), {})
            row[summary.contender] = row.get(summary.contender, 0) + tally.count / summary.jobs
    ordered = sorted(counts, key=lambda kind: -max(counts[kind].values()))
    names = [summary.contender for summary in summaries]
    rows = [[kind, *(_count(counts[kind].get(name)) for name in names)] for kind in ordered[:_MOST_ROWS]]
    if rest := ordered[_MOST_ROWS:]:
        rows.append(["others", *(_count(sum(counts[kind].get(name, 0) for kind in rest)) for name in names)])
    rows.append(["together", *(f"{summary.requests_per_job:.2f}" for summary in summaries)])
    return table(("requests a job", *(CONTENDERS[name].title for name in names)), rows)


def _kind(tally: Tally) -> str:
    return f"{tally.who}: {tally.verb} {tally.resource}{' (dry run)' if tally.dry_run else ''}"


def bars(figures: Mapping[str, float | None]) -> str:
    """What was asked for beside what was reached."""
    rows = []
    for bar in BARS:
        value, met = figures.get(bar.figure), bar.met(figures)
        limit = f"{'at least' if bar.at_least else 'at most'} {bar.limit:g}"
        verdict = {True: "yes", False: "NO", None: "not measured"}[met]
        rows.append([bar.what, "" if value is None else f"{value:.2f}", limit, verdict])
    return table(("bar", "measured", "limit", "met"), rows)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table whose columns are aligned; numbers to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(lines[0]))]
    numeric = [all(_is_number(line[column]) for line in lines[1:]) for column in range(len(widths))]

    def write(line: list[str]) -> str:
        cells = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(line, widths, numeric, strict=True))
        return f"| {' | '.join(cells)} |"

    rule = "|" + "|".join("-" * (w + 1) + (":" if n else "-") for w, n in zip(widths, numeric, strict=True)) + "|"
    return "\n".join([write(lines[0]), rule, *map(write, lines[1:])])


def _is_number(text: str) -> bool:
    return not text or text.replace(".", "").replace("-", "").isdigit()


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _count(value: float | None) -> str:
    return "" if not value else f"{value:.2f}"
