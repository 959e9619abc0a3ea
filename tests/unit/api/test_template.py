"""Rules of spec.template, as tables: a template, and every path that is refused, with the words."""

from typing import Any

import pytest
from dtj_api.fields import InvalidFields
from dtj_api.template import HOST_FEATURES
from dtj_api.validation import load_job_spec

Object = dict[str, Any]
POD = "spec.template.spec"
FIRST = f"{POD}.containers[0]"
SECOND = {"name": "trainer", "image": "t"}
ALLOW = "remove it, or ask whoever installed the operator to allow it (chart value allow: [{}])"


def template(container: Object | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    trainer = {"name": "trainer", "image": "mine:1", **(container or {})}
    return {"metadata": metadata or {}, "spec": {"containers": [trainer], **spec}}


def faults(given: Any, allowed: frozenset[str] = frozenset(), **spec: Any) -> list[str]:
    try:
        load_job_spec({"workers": 2, "template": given, **spec}, allowed)
    except InvalidFields as invalid:
        return [str(error) for error in invalid.errors]
    return []


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("text", "spec.template"),
        ({"spec": []}, POD),
        ({"spec": {"containers": {}}}, f"{POD}.containers"),
        ({"spec": {"containers": ["x"]}}, FIRST),
        ({"spec": {"containers": [None]}}, FIRST),
        (template(metadata="x"), "spec.template.metadata"),
        (template(metadata={"labels": ["a"]}), "spec.template.metadata.labels"),
        (template(volumes={"name": "x"}), f"{POD}.volumes"),
        (template(volumes=[{"name": 7}]), f"{POD}.volumes[0].name"),
        (template(hostNetwork="true"), f"{POD}.hostNetwork"),
        (template(restartPolicy=1), f"{POD}.restartPolicy"),
        (template(affinity={"podAffinity": []}), f"{POD}.affinity.podAffinity"),
        (template(topologySpreadConstraints=[{"maxSkew": "1"}]), f"{POD}.topologySpreadConstraints[0].maxSkew"),
        (template(initContainers=[{"securityContext": "x"}]), f"{POD}.initContainers[0].securityContext"),
        (template({"image": 7}), f"{FIRST}.image"),
        (template({"env": {"A": "1"}}), f"{FIRST}.env"),
        (template({"env": [{"name": 1}]}), f"{FIRST}.env[0].name"),
        (template({"env": [{"name": "A"}, None]}), f"{FIRST}.env[1]"),
        (template({"volumeMounts": [{"mountPath": 1}]}), f"{FIRST}.volumeMounts[0].mountPath"),
        (template({"resources": {"limits": 8}}), f"{FIRST}.resources.limits"),
        (template({"securityContext": {"privileged": "yes"}}), f"{FIRST}.securityContext.privileged"),
        (template({"securityContext": {"capabilities": {"add": "ALL"}}}), f"{FIRST}.securityContext.capabilities.add"),
    ],
)
def test_a_wrong_form_is_told_by_its_path_and_nothing_that_only_follows(given: Any, path: str) -> None:
    assert [told.split(": ")[0] for told in faults(given)] == [path]


def test_a_wrong_form_does_not_hide_the_other_faults() -> None:
    given = template({"env": "x", "ports": "x"}, hostPID=True, hostname="h")
    assert [told.split(": ")[0] for told in faults(given, monitoring={"port": 1}, checkpoint={})] == [
        "spec.monitoring.port",
        f"{FIRST}.env",
        f"{FIRST}.ports",
        f"{POD}.hostname",
        f"{POD}.hostPID",
        "spec.checkpoint",
    ]


def test_a_wrong_form_is_told_beside_a_missing_field() -> None:
    with pytest.raises(InvalidFields) as caught:
        load_job_spec({"template": {"spec": {"containers": "x"}}})
    assert [error.path for error in caught.value.errors] == ["spec.workers", f"{POD}.containers"]


def test_nulls_are_as_good_as_nothing() -> None:
    given = template({"env": None, "securityContext": None}, volumes=None, hostPID=None, restartPolicy=None)
    assert not faults(given | {"metadata": None})
    assert not faults(template(metadata={"creationTimestamp": None, "labels": None}))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"spec": {}}, f"{POD}.containers: has no container; add one named trainer"),
        (template() | {"speck": {}}, "spec.template.speck: is not a known field; known here: metadata, spec"),
        (template({"env": [{"name": "RANK"}]}), f"{FIRST}.env[0].name: RANK is set by the operator; remove it"),
        (
            template({"env": [{"name": "A"}, {"name": "DTJ_MINE"}]}),
            f"{FIRST}.env[1].name: DTJ_MINE is set by the operator; remove it",
        ),
        (
            {"spec": {"containers": [{"name": "a", "env": [{"name": "PET_RDZV_ID"}]}, SECOND]}},
            f"{FIRST}.env[0].name: PET_RDZV_ID is set by the operator; remove it",
        ),
        (template({"image": None}), f"{FIRST}.image: is missing; name the image of your script"),
        (template(hostname="h"), f"{POD}.hostname: is set by the operator; remove it"),
        (template(subdomain="s"), f"{POD}.subdomain: is set by the operator; remove it"),
        (
            template(restartPolicy="OnFailure"),
            f"{POD}.restartPolicy: OnFailure would restart one worker, but the gang is restarted as a whole; "
            "remove it and see spec.restart",
        ),
        (
            template(metadata={"namespace": "other"}),
            "spec.template.metadata.namespace: cannot be set; remove it: only labels and annotations can",
        ),
        (
            template(metadata={"finalizers": ["x/y"]}),
            "spec.template.metadata.finalizers: cannot be set; remove it: only labels and annotations can",
        ),
        (
            template(metadata={"labels": {"dtj.dev/job": "other"}}),
            "spec.template.metadata.labels.dtj.dev/job: is set by the operator; remove it",
        ),
    ],
)
def test_what_is_the_operators_is_refused(given: Object, told: str) -> None:
    assert faults(given) == [told]


@pytest.mark.parametrize(
    "given",
    [
        template(restartPolicy="Never"),
        template({"env": [{"name": "RANKS"}, {"name": "NCCL_DEBUG", "value": "INFO"}]}),
        template(metadata={"labels": {"team": "a"}, "annotations": {"dtj.dev/note": "x"}}),
        # they have no rank
        template(initContainers=[{"name": "fetch", "image": "f", "env": [{"name": "RANK"}]}]),
        template(hostNetwork=False, hostPID=False, hostIPC=False),
        template({"securityContext": {"privileged": False}}, volumes=[{"name": "x", "emptyDir": {}}]),
        {"spec": {"containers": [{"name": "sidecar"}, SECOND]}},
    ],
)
def test_the_rest_is_the_users(given: Object) -> None:
    assert not faults(given)


@pytest.mark.parametrize(
    ("feature", "given", "path"),
    [
        ("hostPID", template(hostPID=True), f"{POD}.hostPID"),
        ("hostIPC", template(hostIPC=True), f"{POD}.hostIPC"),
        ("hostPath", template(volumes=[{"name": "a"}, {"name": "b", "hostPath": {}}]), f"{POD}.volumes[1].hostPath"),
        ("privileged", template({"securityContext": {"privileged": True}}), f"{FIRST}.securityContext.privileged"),
        (
            "privileged",
            template(initContainers=[{"name": "i", "securityContext": {"privileged": True}}]),
            f"{POD}.initContainers[0].securityContext.privileged",
        ),
    ],
)
def test_what_opens_the_node_has_to_be_allowed(feature: str, given: Object, path: str) -> None:
    told = [f"{path}: opens the node to the job, which is not allowed here; {ALLOW.format(feature)}"]
    assert faults(given) == told
    assert faults(given, frozenset(HOST_FEATURES) - {feature}) == told
    assert not faults(given, frozenset({feature}))


def test_the_nodes_network_is_asked_for_in_one_place_and_has_to_be_allowed() -> None:
    allowed = frozenset({"hostNetwork"})
    asked = {"hostNetwork": True}
    refusal = ALLOW.format("hostNetwork")
    told = f"spec.network.hostNetwork: opens the node to the job, which is not allowed here; {refusal}"
    assert faults(template(), network=asked) == [told]
    assert not faults(template(), allowed, network=asked)
    elsewhere = f"{POD}.hostNetwork: is set by spec.network.hostNetwork; remove it and set spec.network.hostNetwork"
    assert faults(template(hostNetwork=True), allowed) == [elsewhere]
    assert faults(template(hostNetwork=True)) == [elsewhere]


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"])
def test_an_interface_is_named_once(name: str) -> None:
    given = template({"env": [{"name": name, "value": "eth1"}]})
    told = f"{FIRST}.env[0].name: {name} is set by spec.network.interface; remove one of them"
    assert faults(given, network={"interface": "eth0"}) == [told]
    assert not faults(given)
    assert not faults(template(), network={"interface": "eth0"})
    aside = {"spec": {"containers": [SECOND, {"name": "b", "env": [{"name": name}]}]}}
    assert not faults(aside, network={"interface": "eth0"})
