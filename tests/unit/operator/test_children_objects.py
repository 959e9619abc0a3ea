"""children/: all that is made for a job beside its pods, and what is rehearsed."""

import pytest
from dtj_operator import children
from dtj_operator.children import claim, network_policy, pod_monitor, service

from tests.unit.operator.blueprints import OWNER, Object, blueprint
from tests.unit.operator.builders import SCRIPT, TRAINING


def test_service() -> None:
    built = service.build(blueprint(template=SCRIPT))
    assert built["metadata"]["name"] == "gpt-0"
    assert built["metadata"]["ownerReferences"] == [OWNER]
    assert built["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"dtj.dev/job": "gpt", "dtj.dev/attempt": "0"},
        "ports": [{"name": "master", "port": 29500}, {"name": "metrics", "port": 9464}],
    }


def test_claim() -> None:
    built = claim.build(blueprint(template=SCRIPT, checkpoint={"size": "10Gi"}))
    assert built is not None
    assert built["metadata"]["name"] == "gpt-checkpoints"
    assert built["metadata"]["ownerReferences"] == [OWNER]
    assert "dtj.dev/attempt" not in built["metadata"]["labels"], "it outlives attempts"
    assert built["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}


@pytest.mark.parametrize("checkpoint", [None, {"claimName": "mine"}])
def test_no_claim_is_made_where_none_is_asked_for(checkpoint: Object | None) -> None:
    assert claim.build(blueprint(template=SCRIPT, checkpoint=checkpoint)) is None


def test_claim_of_a_class_and_modes() -> None:
    asked = {"size": "1Gi", "storageClassName": "fast", "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}
    built = claim.build(blueprint(template=SCRIPT, checkpoint=asked))
    assert built is not None
    assert built["spec"] == {
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }


def test_a_retained_claim_is_owned_by_nobody_and_still_says_whose_it_was() -> None:
    deleted, retained = (
        claim.build(blueprint(template=SCRIPT, checkpoint={"size": "1Gi", "retain": retain}))
        for retain in ("Delete", "Retain")
    )
    assert deleted is not None
    assert retained is not None
    assert "ownerReferences" not in retained["metadata"]
    assert retained["metadata"] == {k: v for k, v in deleted["metadata"].items() if k != "ownerReferences"}


SELECTOR = {"matchLabels": {"dtj.dev/job": "gpt", "dtj.dev/attempt": "3"}}
AMONG = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["dtj", "prom"]}]}


@pytest.mark.parametrize(
    ("scrapers", "sources"), [((), {}), (("dtj", "prom"), {"from": [{"namespaceSelector": AMONG}]})]
)
def test_network_policy_lets_in_the_attempt_and_scrapers(scrapers: tuple[str, ...], sources: Object) -> None:
    built = network_policy.build(blueprint(3, scrapers, template=SCRIPT, monitoring={"port": 9999}))
    assert built == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": "gpt-3",
            "namespace": "ml",
            "labels": {
                "dtj.dev/job": "gpt",
                "dtj.dev/attempt": "3",
                "app.kubernetes.io/managed-by": "dtj-operator",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "podSelector": SELECTOR,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": SELECTOR}]},
                {"ports": [{"protocol": "TCP", "port": 9999}], **sources},
            ],
        },
    }


@pytest.mark.parametrize("network", [{"policy": "Open"}, {"hostNetwork": True}])
def test_no_network_policy_where_it_is_not_wanted_or_would_not_hold(network: Object) -> None:
    assert network_policy.build(blueprint(template=SCRIPT, network=network)) is None


def test_pod_monitor() -> None:
    assert pod_monitor.build(blueprint(template=SCRIPT)) is None
    assert pod_monitor.build(blueprint(3, training=TRAINING, monitoring={"podMonitor": True})) == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": "gpt",
            "namespace": "ml",
            "labels": {"dtj.dev/job": "gpt", "app.kubernetes.io/managed-by": "dtj-operator"},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "selector": {"matchLabels": {"dtj.dev/job": "gpt"}},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
        },
    }


def kinds(objects: list[Object]) -> list[str]:
    return [made["kind"] for made in objects]


def test_prerequisites_come_in_order() -> None:
    everything = blueprint(training=TRAINING, checkpoint={"size": "1Gi"}, monitoring={"podMonitor": True})
    assert kinds(children.prerequisites(everything)) == [
        "PersistentVolumeClaim",
        "NetworkPolicy",
        "Service",
        "PodMonitor",
    ]
    assert kinds(children.prerequisites(blueprint(template=SCRIPT, network={"policy": "Open"}))) == ["Service"]


@pytest.mark.parametrize(
    ("workers", "pods"), [(1, ["gpt-0-0"]), (2, ["gpt-0-0", "gpt-0-1"]), (9, ["gpt-0-0", "gpt-0-1"])]
)
def test_a_worker_with_the_volume_and_one_without_are_rehearsed(workers: int, pods: list[str]) -> None:
    plan = blueprint(workers=workers, training=TRAINING, checkpoint={"size": "1Gi"}, monitoring={"podMonitor": True})
    rehearsed = children.rehearsal(plan)
    assert [made["metadata"]["name"] for made in rehearsed if made["kind"] == "Pod"] == pods
    assert kinds(rehearsed[: -len(pods)]) == ["PersistentVolumeClaim", "PodMonitor"]


def test_of_workers_that_are_alike_one_is_rehearsed() -> None:
    assert kinds(children.rehearsal(blueprint(workers=9, template=SCRIPT))) == ["Pod"]
