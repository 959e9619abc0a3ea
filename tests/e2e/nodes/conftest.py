"""Fixtures for tests that disturb nodes: run one at a time, after the others."""

from collections.abc import Iterator

import pytest
from dtj_testbed.cluster import Cluster

from tests.e2e.namespace import Namespace
from tests.e2e.nodes.lossy import LossyNode

OPERATOR = ("-l", "app.kubernetes.io/name=dtj-operator")


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster.running()


@pytest.fixture
def lossy_node(operator_ready: None, cluster: Cluster) -> Iterator[LossyNode]:
    """The node without the API server, and after this without the operator; it always comes back."""
    node = LossyNode(cluster, cluster.nodes[-1])
    _move_operator_away(cluster, node.name)
    yield node
    node.recover()


def _move_operator_away(cluster: Cluster, node: str) -> None:
    system = Namespace("dtj-system")
    cluster.kubectl("cordon", node)
    try:
        system.kubectl("delete", "pod", *OPERATOR, f"--field-selector=spec.nodeName={node}")
        system.kubectl("rollout", "status", "deployment/dtj", "--timeout=60s")
    finally:
        cluster.kubectl("uncordon", node)


@pytest.fixture
def shared_claim(namespace: Namespace, cluster: Cluster) -> Iterator[str]:
    """A claim to a folder that both nodes see."""
    node, folder, volume = cluster.nodes[0], f"/shared/{namespace.name}", namespace.name
    cluster.exec_on_node(node, "install", "--directory", "--mode=777", folder)
    claim = {"namespace": namespace.name, "name": "shared"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1Gi"}
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": common | {"capacity": size, "hostPath": {"path": folder}, "claimRef": claim},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim["name"]},
            "spec": common | {"volumeName": volume, "resources": {"requests": size}},
        },
    )
    yield claim["name"]
    cluster.kubectl("delete", "persistentvolume", volume, "--wait=false")
    cluster.exec_on_node(node, "rm", "-r", folder)
