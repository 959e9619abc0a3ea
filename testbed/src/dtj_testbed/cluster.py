"""Level `kind`: two real nodes. Makes, mends, describes and deletes the cluster; a handle on it for tests."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from dtj_testbed import binaries, engine, paths, pins, registry, shell
from dtj_testbed.engine import Engine
from dtj_testbed.errors import TestbedError

NODES = (f"{paths.CLUSTER_NAME}-control-plane", f"{paths.CLUSTER_NAME}-worker")
STEP = "cluster: two nodes"
_READY_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """A running cluster, for tests and tools."""

    engine: Engine
    kubeconfig: Path
    nodes: tuple[str, ...] = NODES

    @classmethod
    def running(cls) -> Cluster:
        """The cluster that `up` has made.

        Raises:
            TestbedError: it is not up.
        """
        found = engine.answering()
        if found is None or not healthy(found):
            raise TestbedError("The kind cluster is not up: run `make cluster-up`")
        return cls(found, paths.kubeconfig())

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return what it printed."""
        return _kubectl(*arguments, stdin=stdin)

    def exec_on_node(self, node: str, *command: str) -> str:
        """Run a command in a node's container, as its root."""
        return self.engine.output("exec", node, *command)

    def pause_node(self, node: str) -> None:
        """Lose a node for real: everything on it freezes and its network goes silent."""
        self.engine.output("pause", node)

    def unpause_node(self, node: str) -> None:
        if self.engine.container_state(node) == "paused":
            self.engine.output("unpause", node)

    def freeze_kubelet(self, node: str) -> None:
        """Its containers go on and nobody can stop them: a node whose kubelet hangs."""
        self.engine.output("exec", node, "systemctl", "kill", "--signal=STOP", "kubelet")

    def thaw_kubelet(self, node: str) -> None:
        self.engine.output("exec", node, "systemctl", "kill", "--signal=CONT", "kubelet")

    def host_address(self) -> str:
        """This machine's address as the API server sees it, for a webhook that a test serves here."""
        template = "{{(index .IPAM.Config 0).Gateway}}"
        return self.engine.output("network", "inspect", registry.NETWORK, "--format", template)

    def cache_names(self, *, on: bool) -> None:
        """Let the name service remember answers about the cluster's own names, misses too, or stop it.

        kubeadm turns that off; older clusters and providers' name services do it, and then a name that was
        asked for too early stays unknown for half a minute.
        """
        where = ("--namespace", "kube-system")
        present = json.loads(self.kubectl("get", "configmap", "coredns", *where, "--output=json"))
        lines = present["data"]["Corefile"].splitlines()
        kept = [line for line in lines if not re.match(r"\s*disable (success|denial) cluster\.local", line)]
        if not on:
            place = next(i for i, line in enumerate(kept) if line.strip().startswith("cache "))
            kept[place + 1 : place + 1] = [f"       disable {kind} cluster.local" for kind in ("success", "denial")]
        patch = json.dumps({"data": {"Corefile": "\n".join(kept) + "\n"}})
        self.kubectl("patch", "configmap", "coredns", *where, "--type=merge", "--patch", patch)
        self.kubectl("rollout", "restart", "deployment/coredns", *where)
        self.kubectl("rollout", "status", "deployment/coredns", *where, "--timeout=60s")


def healthy(found: Engine) -> bool:
    """Whether both nodes run, the API answers and calls them ready."""
    if not paths.kubeconfig().exists():
        return False
    if any(found.container_state(node) != "running" for node in NODES):
        return False
    return set(ready_nodes()) == set(NODES)


def ready_nodes() -> list[str]:
    """Names of the nodes that the API server calls ready; none if it does not answer."""
    try:
        nodes = json.loads(_kubectl("get", "nodes", "--output=json", "--request-timeout=3s"))["items"]
    except TestbedError:
        return []
    return [
        node["metadata"]["name"]
        for node in nodes
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
    ]


def start_again(found: Engine) -> bool:
    """Try to bring back nodes that exist but are stopped or paused; False if that does not help."""
    states = {node: found.container_state(node) for node in NODES}
    if "absent" in states.values() or not paths.kubeconfig().exists():
        return False
    for node, state in states.items():
        verb = {"running": None, "paused": "unpause"}.get(state, "start")
        if verb and not found.succeeds(verb, node, timeout=60):
            return False
    try:
        _wait_ready()
    except TestbedError:
        return False
    return True


def create(found: Engine, image: str) -> None:
    """Make the cluster anew, whatever is left of an earlier one."""
    delete(found)
    temporary = paths.kubeconfig().with_suffix(".new")
    temporary.unlink(missing_ok=True)
    template = (pins.PACKAGE_FOLDER / "config" / "cluster.yaml").read_text()
    configuration = paths.state_folder() / "cluster.yaml"
    configuration.write_text(template.replace("SHARED_FOLDER", json.dumps(str(paths.made(paths.shared_folder())))))
    shell.logged(
        [binaries.need("kind"), "create", "cluster", "--name", paths.CLUSTER_NAME, "--image", image,
         "--config", configuration, "--kubeconfig", temporary, "--retain"],
        paths.logs_folder() / "kind.log", env=environment(found),
    )  # fmt: skip
    temporary.replace(paths.kubeconfig())
    _wait_ready()


def delete(found: Engine) -> None:
    for node in NODES:
        found.succeeds("rm", "--force", "--volumes", node, timeout=60)
    paths.kubeconfig().unlink(missing_ok=True)
    shutil.rmtree(paths.shared_folder(), ignore_errors=True)


def environment(found: Engine) -> dict[str, str]:
    """What kind needs to work with this engine."""
    provider = {"KIND_EXPERIMENTAL_PROVIDER": "podman"} if found.is_podman else {}
    path = f"{Path(found.program).parent}:{os.environ['PATH']}"
    return {**found.environment, **provider, "PATH": path}


def _wait_ready() -> None:
    """Both nodes ready, name service and storage there.

    Raises:
        TestbedError: something is not ready in time.
    """
    wait = [f"--timeout={_READY_SECONDS}s"]
    _kubectl("wait", "node", "--all", "--for=condition=Ready", *wait)
    for namespace, deployment in (("kube-system", "coredns"), ("local-path-storage", "local-path-provisioner")):
        _kubectl("rollout", "status", "--namespace", namespace, f"deployment/{deployment}", *wait)


def _kubectl(*arguments: str, stdin: str | None = None) -> str:
    command: shell.Arguments = [binaries.need("kubectl"), "--kubeconfig", paths.kubeconfig(), *arguments]
    return shell.output(command, stdin=stdin, timeout=_READY_SECONDS + 30)
