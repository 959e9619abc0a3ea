"""children/network.py and volumes.py: what spec.network and spec.checkpoint do to a worker's pod."""

from typing import Any

import pytest
from dtj_api.template import REQUIRED_TERMS
from dtj_operator import children
from dtj_operator.children import pod

from tests.unit.operator.blueprints import Object, blueprint, template, trainer_of, variables
from tests.unit.operator.builders import SCRIPT, TRAINING

RDMA = {"network": {"rdmaResource": "rdma/hca"}}


def test_an_interface_is_told_to_both_libraries() -> None:
    told = variables(pod.build(blueprint(template=SCRIPT, network={"interface": "eth0"}), 0))
    assert told["NCCL_SOCKET_IFNAME"] == "=eth0", "NCCL takes a bare name for a prefix"
    assert told["GLOO_SOCKET_IFNAME"] == "eth0"
    assert not [name for name in variables(pod.build(blueprint(template=SCRIPT), 0)) if "IFNAME" in name]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (None, {"limits": {"rdma/hca": "1"}, "requests": {"rdma/hca": "1"}}),
        (
            {"limits": {"cpu": "8"}, "claims": [{"name": "gpu"}]},
            {"limits": {"cpu": "8", "rdma/hca": "1"}, "requests": {"rdma/hca": "1"}, "claims": [{"name": "gpu"}]},
        ),
        ({"limits": {"rdma/hca": "4"}}, {"limits": {"rdma/hca": "4"}}),
    ],
)
def test_a_trainer_gets_one_rdma_device_or_as_many_as_it_says(resources: Object | None, expected: Object) -> None:
    built = pod.build(blueprint(template=template({"resources": resources}), **RDMA), 0)
    assert trainer_of(built)["resources"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"add": ["IPC_LOCK"]}),
        ({"add": ["SYS_PTRACE"], "drop": ["NET_RAW"]}, {"add": ["SYS_PTRACE", "IPC_LOCK"], "drop": ["NET_RAW"]}),
        ({"add": ["IPC_LOCK"]}, {"add": ["IPC_LOCK"]}),
    ],
)
def test_rdma_may_pin_memory(given: Object | None, expected: Object) -> None:
    built = pod.build(blueprint(template=template({"securityContext": {"capabilities": given}}), **RDMA), 0)
    assert trainer_of(built)["securityContext"] == {"capabilities": expected}


def test_the_built_in_trainer_with_rdma_stays_restricted_otherwise() -> None:
    assert trainer_of(pod.build(blueprint(training=TRAINING, **RDMA), 0))["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
    }


def test_only_the_trainer_container_gets_the_device() -> None:
    given = {"spec": {"containers": [{"name": "proxy", "image": "p"}, {"name": "trainer", "image": "t"}]}}
    assert pod.build(blueprint(template=given, **RDMA), 0)["spec"]["containers"][0] == {"name": "proxy", "image": "p"}


def test_ports_in_the_nodes_network_keep_two_workers_off_one_node() -> None:
    built = pod.build(blueprint(template=SCRIPT, network={"hostNetwork": True}), 0)
    assert built["spec"]["hostNetwork"] is True
    assert built["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert trainer_of(built)["ports"] == [
        {"name": "metrics", "containerPort": 9464},
        {"name": "master", "containerPort": 29500},
    ]


@pytest.mark.parametrize(
    ("given", "expected"), [("ClusterFirst", "ClusterFirstWithHostNet"), ("Default", "Default"), ("None", "None")]
)
def test_names_of_workers_are_known_in_the_nodes_network(given: str, expected: str) -> None:
    asked = template(dnsPolicy=given)
    assert pod.build(blueprint(template=asked, network={"hostNetwork": True}), 0)["spec"]["dnsPolicy"] == expected
    assert pod.build(blueprint(template=asked), 0)["spec"]["dnsPolicy"] == given


def test_a_port_the_user_declares_is_not_declared_twice() -> None:
    own = [{"name": "store", "containerPort": 29500}]
    built = pod.build(blueprint(template=template({"ports": own}), network={"hostNetwork": True}), 0)
    assert trainer_of(built)["ports"] == [*own, {"name": "metrics", "containerPort": 9464}]


def test_a_folder_of_the_volume_is_mounted_instead_of_its_root() -> None:
    built = pod.build(blueprint(template=SCRIPT, checkpoint={"claimName": "mine", "subPath": "runs/gpt"}), 0)
    mount = {"name": "checkpoints", "mountPath": "/checkpoints", "subPath": "runs/gpt"}
    assert mount in trainer_of(built)["volumeMounts"]


TOGETHER = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"dtj.dev/job": "gpt", "dtj.dev/attempt": "0"}},
}


def affinity_of(**given: Any) -> list[Any]:
    return [built["spec"].get("affinity") for built in children.pods(blueprint(**given), range(2))]


@pytest.mark.parametrize(
    "given",
    [
        {"checkpoint": {"size": "1Gi"}},
        {"checkpoint": {"size": "1Gi", "accessModes": ["ReadWriteOnce"]}},
        {"checkpoint": {"claimName": "mine"}, "modes": ("ReadWriteOnce",)},
    ],
)
def test_workers_that_share_a_readwriteonce_volume_share_a_node(given: Object) -> None:
    assert affinity_of(template=SCRIPT, **given) == [{"podAffinity": {REQUIRED_TERMS: [TOGETHER]}}] * 2


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"template": SCRIPT, "workers": 1, "checkpoint": {"size": "1Gi"}},
        {"template": SCRIPT, "checkpoint": {"size": "1Gi", "accessModes": ["ReadWriteMany"]}},
        {"template": SCRIPT, "checkpoint": {"claimName": "mine"}},
        {"template": SCRIPT, "checkpoint": {"claimName": "mine"}, "modes": ("ReadWriteOnce", "ReadWriteMany")},
        {"training": TRAINING, "checkpoint": {"size": "1Gi"}},
    ],
)
def test_other_workers_are_placed_freely(given: Object) -> None:
    assert affinity_of(**({"template": SCRIPT} | given)) == [None] * 2


def test_affinity_of_the_users_own_is_kept() -> None:
    near_data = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "data"}}}
    preferred = [{"weight": 1, "podAffinityTerm": near_data}]
    given = {
        "nodeAffinity": {"any": "thing"},
        "podAffinity": {REQUIRED_TERMS: [near_data], "preferredDuringSchedulingIgnoredDuringExecution": preferred},
    }
    assert (
        affinity_of(template=template(affinity=given), checkpoint={"size": "1Gi"})
        == [
            {
                "nodeAffinity": {"any": "thing"},
                "podAffinity": {
                    REQUIRED_TERMS: [near_data, TOGETHER],
                    "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                },
            }
        ]
        * 2
    )
