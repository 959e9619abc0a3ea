"""A node that a test loses and gets back, and what goes on there while its kubelet hangs."""

import json
from dataclasses import dataclass
from typing import Any

from dtj_api import names
from dtj_testbed.cluster import Cluster

from tests.e2e.namespace import Namespace, log_lines

Object = dict[str, Any]


@dataclass(frozen=True)
class LossyNode:
    """The node `name`; the operator and the API server run on the other one."""

    cluster: Cluster
    name: str

    def freeze(self) -> None:
        """Its kubelet hangs, its containers go on."""
        self.cluster.freeze_kubelet(self.name)

    def pause(self) -> None:
        """Everything on it stands still."""
        self.cluster.pause_node(self.name)

    def recover(self) -> None:
        """As it was; returns when the cluster calls it ready."""
        self.cluster.unpause_node(self.name)
        self.cluster.thaw_kubelet(self.name)
        self.cluster.kubectl("wait", "node", self.name, "--for=condition=Ready", "--timeout=90s")

    def run(self, *command: str) -> str:
        return self.cluster.exec_on_node(self.name, *command)

    def container(self, pod: Object) -> Object:
        """State of the pod's trainer container, from the container runtime."""
        uid = pod["metadata"]["uid"]
        labels = ["--label", f"io.kubernetes.pod.uid={uid}", "--label", "io.kubernetes.container.name=trainer"]
        [found] = self.run("crictl", "ps", "--all", "--quiet", *labels).split()
        status = json.loads(self.run("crictl", "inspect", found))["status"]
        assert isinstance(status, dict)
        return status

    def alive(self, pod: Object) -> bool:
        return bool(self.container(pod)["state"] == "CONTAINER_RUNNING")

    def log(self, pod: Object) -> list[Object]:
        """The trainer's log lines, from the node's own disk."""
        metadata = pod["metadata"]
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        text = self.run("cat", f"/var/log/pods/{folder}/{names.TRAINER_CONTAINER}/0.log")
        # <time> <stream> <F or P> <line>, the container runtime interface's form
        return log_lines("\n".join(line.split(" ", 3)[3] for line in text.splitlines()))


def worker_on(namespace: Namespace, job: str, node: str, workers: int) -> Object:
    """The pod of attempt 0 that is on `node`."""
    pods = [namespace.pod(job, worker) for worker in range(workers)]
    return next(pod for pod in pods if pod.get("spec", {}).get("nodeName") == node)
