"""What goes to the terminal, and what goes to benchmarks/results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from benchmarks.operator import ratios, report
from benchmarks.operator.contenders import ROOT
from benchmarks.operator.picture import draw
from benchmarks.operator.results import Run, Summary, as_json, summarize

FOLDER = ROOT / "benchmarks" / "results"

_READING = """\
Each measurement has a control plane of its own (etcd, API server, scheduler, kube-controller-manager, kwok's pretended
nodes), a warm-up, and then the load; all contenders and the bare client are administrators. `created`: the last pod's
POST was answered; `running`: the last pod was seen Running; `settled`: so says every job's own status. Figures are
medians of the repeats. CPU and requests are those from the first POST until nothing was written for 3 s; watches,
leases and heartbeats of nodes are left out. The bare client POSTs the same pods (B: services and pods), 50 in flight,
and nothing else. Raised limits: `--kube-api-qps` and `--kube-api-burst` of 5000 for the contender and for
kube-controller-manager (which makes JobSet's pods), 8 threads for training-operator. Default limits: those both come
with. The scheduler's are raised always. Webhooks are off for all."""


@dataclass(frozen=True)
class Report:
    """
    Attributes:
        machine: what it was measured on, and with what.
        command: that prints these figures.
    """

    runs: Sequence[Run]
    machine: dict[str, str]
    command: str

    @cached_property
    def summaries(self) -> list[Summary]:
        return summarize(self.runs)

    @cached_property
    def figures(self) -> dict[str, float | None]:
        return ratios.figures(self.summaries)

    def short(self) -> str:
        return "\n".join([tables(self.runs), "", report.bars(self.figures), ""])

    def write(self, name: str) -> None:
        """The table, the picture and every run."""
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.md").write_text(self._page(name))
        (FOLDER / f"{name}.svg").write_text(draw(_by_part(self.summaries)))
        whole = {
            "command": self.command, "machine": self.machine, "figures": self.figures, "runs": as_json(self.runs),
        }  # fmt: skip
        (FOLDER / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")

    def _page(self, name: str) -> str:
        loads = [run.load for run in self.runs]
        machine = [f"- {key}: {value}" for key, value in self.machine.items()]
        busy = f"- load average before each measurement: {min(loads):.1f} to {max(loads):.1f}" if loads else ""
        lines = [
            "# The operator beside its peers", "", f"`{self.command}`", "", *machine, busy, "", f"![]({name}.svg)", "",
            _READING, "", "## Bars", "", report.bars(self.figures), "",
        ]  # fmt: skip
        for part, summaries in _by_part(self.summaries):
            lines += [f"## {report.heading(part, summaries[0])}", "", report.times(summaries), ""]
            lines += [report.processes(summaries), "", report.requests(summaries), ""]
        return "\n".join(lines)


def tables(runs: Sequence[Run]) -> str:
    """Times of every part."""
    parts = _by_part(summarize(runs))
    return "\n\n".join(f"{report.heading(part, found[0])}\n{report.times(found)}" for part, found in parts)


def _by_part(summaries: Sequence[Summary]) -> list[tuple[str, list[Summary]]]:
    parts = dict.fromkeys(summary.part for summary in summaries)
    return [(part, [s for s in summaries if s.part == part]) for part in parts]
