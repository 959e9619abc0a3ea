"""Level `kwok`: the API server with scheduler, all controllers and as many pretended nodes as a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtj_testbed import binaries
from dtj_testbed.apiserver import ApiServer


class KwokCluster(ApiServer):
    """Pods are scheduled and said to run, but nothing runs: for scale and for control-plane chaos.

    Args:
        nodes: how many pretended nodes there are at the start; `add_node` makes more.
        arguments: more flags by program, such as {"kube-scheduler": ["--kube-api-qps=500"]}.
        crds: CustomResourceDefinitions that are there before the controllers start.
        jobs_complete: pods of a batch/v1 Job succeed as soon as they run, as kwok has it by itself.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        arguments: Mapping[str, Sequence[str]] | None = None,
        crds: Sequence[dict[str, Any]] = (),
        jobs_complete: bool = True,
    ) -> None:
        super().__init__(crds=crds)
        self._nodes = nodes
        self._controllers = ("*",)
        self._arguments = dict(arguments or {})
        self._jobs_complete = jobs_complete

    def add_node(self, name: str, *, cpu: str = "32", memory: str = "256Gi", pods: int = 110) -> None:
        capacity = {"cpu": cpu, "memory": memory, "pods": str(pods)}
        self.request("POST", "/api/v1/nodes", _node(name, capacity))

    def _after_start(self) -> None:
        self.processes.start(
            "kube-scheduler",
            [binaries.need("kube-scheduler"), f"--kubeconfig={self.kubeconfig}",
             "--secure-port=0", "--leader-elect=false", *self._more("kube-scheduler")],
        )  # fmt: skip
        stages = self.folder / "stages.yaml"
        stages.write_text(_stages(() if self._jobs_complete else ("pod-complete",)))
        self.processes.start(
            "kwok",
            [binaries.need("kwok"), f"--kubeconfig={self.kubeconfig}", f"--config={stages}",
             "--manage-all-nodes=true", "--node-lease-duration-seconds=40", *self._more("kwok")],
        )  # fmt: skip
        for number in range(self._nodes):
            self.add_node(f"node-{number}")
        self.processes.wait_until("pretended nodes", self._nodes_ready)

    def _nodes_ready(self) -> bool:
        nodes = self.request("GET", "/api/v1/nodes")["items"]
        return len(nodes) == self._nodes and all(map(_is_ready, nodes))


def _stages(without: Sequence[str]) -> str:
    """How pretended nodes and pods behave: kwok's own `fast` stages, out of its Go module."""
    stages = binaries.source_folder("sigs.k8s.io/kwok") / "kustomize" / "stage"
    wanted = ("node/fast/node-*", "node/heartbeat-with-lease/node-*", "pod/fast/pod-*")
    files = [file for pattern in wanted for file in sorted(stages.glob(f"{pattern}.yaml")) if file.stem not in without]
    return "\n---\n".join(file.read_text() for file in files)


def _node(name: str, capacity: dict[str, str]) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
