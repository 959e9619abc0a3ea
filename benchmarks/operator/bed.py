"""Where one contender is measured: a control plane of its own, pretended nodes, and the eyes on its processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dtj_testbed import KwokCluster

from benchmarks.operator import audit
from benchmarks.operator.manifests import NAMESPACE

NODES = 50
PODS_PER_NODE = 110
# High enough for no client of the control plane to wait for its own limit.
_RAISED = ("--kube-api-qps=5000", "--kube-api-burst=5000")
# RFC 2544's: pods' addresses must not be those of somebody's machines
_POD_ADDRESSES = "198.18.0.0/15"
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Bed:
    """A fresh control plane. Use it as a context manager: everything started in it ends with it.

    Args:
        crds: of the contender.
        raised: raise the client limits of kube-controller-manager; the scheduler's are raised always, since at its
            own it binds 50 pods a second, whoever made them.
    """

    def __init__(self, crds: Sequence[dict[str, Any]], *, raised: bool) -> None:
        self._crds = crds
        self._raised = raised
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dtj-bench-")))
            policy, self.log = folder / "policy.yaml", folder / "audit.log"
            policy.write_text(audit.POLICY)
            arguments: dict[str, Sequence[str]] = {
                "kube-apiserver": [
                    f"--audit-policy-file={policy}", f"--audit-log-path={self.log}", "--audit-log-maxsize=4000",
                ],
                "kube-scheduler": _RAISED,
                "kube-controller-manager": _RAISED if self._raised else (),
                "kwok": [f"--cidr={_POD_ADDRESSES}"],
            }  # fmt: skip
            cluster = KwokCluster(NODES, arguments=arguments, crds=self._crds, jobs_complete=False)
            self.cluster = stack.enter_context(cluster)
            self.load_kubeconfig = self._administrator(audit.LOAD)
            self.controller_kubeconfig = self._administrator(audit.CONTROLLER)
            self.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.cluster.request("POST", path, body)

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Start the contender's process."""
        base = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
        extra = {"KUBECONFIG": str(self.controller_kubeconfig), **(environment or {})}
        self.cluster.processes.start(audit.CONTROLLER, command, base | extra)

    def at_the_end(self, call: Any, *arguments: object) -> None:
        """Call it when the bed is cleared."""
        self._stack.callback(call, *arguments)

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds of each process since it began."""
        return {name: cpu_of(pid) for name, pid in self.cluster.processes.pids().items()}

    def memory_peaks(self) -> dict[str, float]:
        """The most memory that each process has had, in MB."""
        return {name: _peak(pid) for name, pid in self.cluster.processes.pids().items()}

    def _administrator(self, name: str) -> Path:
        return self.cluster.user_kubeconfig(name, ["system:masters"])


def cpu_of(pid: int) -> float:
    """CPU seconds of a process since it began; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def _peak(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM")), 0.0)
