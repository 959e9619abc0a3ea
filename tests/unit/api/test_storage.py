"""Which volume the workers of a job can mount together, as a table."""

from typing import Any

import pytest
from dtj_api.fields import InvalidFields
from dtj_api.storage import storage_errors
from dtj_api.template import HOST_FEATURES, REQUIRED_TERMS
from dtj_api.validation import load_job_spec

Object = dict[str, Any]
TRAINING = {
    "model": {"name": "gpt", "size": "tiny"},
    "data": {"text": "tinydocs"},
    "steps": 10,
    "batch": {"perProcess": 2},
}
MODES = "spec.checkpoint.accessModes"
TERM = f"spec.template.spec.affinity.podAntiAffinity.{REQUIRED_TERMS}[0]"
SPREAD = "spec.template.spec.topologySpreadConstraints[0]"
HOST = "spec.network.hostNetwork"
OWN: Object = {"matchLabels": {"app": "gpt"}}


def job(*modes: str, pod: Object | None = None, **spec: Any) -> Object:
    """A script on two workers with a volume of these access modes."""
    checkpoint = {"size": "1Gi"} | ({"accessModes": list(modes)} if modes else {})
    containers = [{"name": "trainer", "image": "mine:1"}]
    template = {"metadata": {"labels": {"app": "gpt"}}, "spec": {"containers": containers, **(pod or {})}}
    return {"workers": 2, "template": template, "checkpoint": checkpoint, **spec}


def apart(selector: Any = None, key: str = "kubernetes.io/hostname", **term: Any) -> Object:
    """A required anti-affinity."""
    selected = {} if selector is None else {"labelSelector": selector}
    return {"affinity": {"podAntiAffinity": {REQUIRED_TERMS: [{"topologyKey": key, **selected, **term}]}}}


def spread(selector: Object, key: str = "kubernetes.io/hostname", **changes: Any) -> Object:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": key, "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint | changes]}


def matching(operator: str, key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def told_by(raw: Object) -> list[str]:
    try:
        load_job_spec(raw, frozenset(HOST_FEATURES))
    except InvalidFields as invalid:
        return [str(error) for error in invalid.errors]
    return []


@pytest.mark.parametrize(
    ("raw", "obstacle"),
    [
        (job(network={"hostNetwork": True}), HOST),
        (job("ReadWriteOnce", network={"hostNetwork": True}), HOST),
        (job(pod=apart(OWN)), TERM),
        (job(pod=apart({})), TERM),
        (job(pod=apart(matching("In", "app", "gpt", "bert"))), TERM),
        (job(pod=apart(matching("NotIn", "app", "bert"))), TERM),
        (job(pod=apart(matching("Exists", "dtj.dev/job"))), TERM),
        (job(pod=apart(matching("DoesNotExist", "db"))), TERM),
        (job(pod=apart({"matchLabels": {"app.kubernetes.io/managed-by": "dtj-operator"}})), TERM),
        (job(pod=apart({}, matchLabelKeys=["dtj.dev/job"])), TERM),
        (job(pod=apart(OWN, namespaceSelector={})), TERM),
        (job(pod=spread(OWN)), SPREAD),
        (job(pod=spread(OWN, maxSkew=2), workers=3), SPREAD),
    ],
)
def test_workers_that_cannot_share_a_node_cannot_share_a_readwriteonce_volume(raw: Object, obstacle: str) -> None:
    problem = f"a ReadWriteOnce volume ties all {raw['workers']} workers to one node, but {obstacle} keeps them apart"
    assert told_by(raw) == [f"{MODES}: {problem}; use ReadWriteMany, or set workers: 1"]


def test_a_readwriteoncepod_volume_is_for_one_pod() -> None:
    told = f"{MODES}: a ReadWriteOncePod volume cannot be mounted by 2 workers; use ReadWriteMany, or set workers: 1"
    assert told_by(job("ReadWriteOncePod")) == [told]


@pytest.mark.parametrize(
    "raw",
    [
        job(),
        job("ReadWriteOncePod", workers=1),
        job("ReadWriteMany", network={"hostNetwork": True}),
        job("ReadWriteOnce", "ReadWriteMany", network={"hostNetwork": True}),
        job("ReadWriteOncePod", training=TRAINING),
        job(network={"hostNetwork": True}, training=TRAINING),
        job(network={"hostNetwork": True}, checkpoint={"claimName": "of-unknown-modes"}),
        job(pod=apart(OWN), workers=1),
        job(pod=apart(OWN, key="topology.kubernetes.io/zone")),
        job(pod=apart()),
        job(pod=apart({"matchLabels": {"app": "bert"}})),
        job(pod=apart(matching("In", "app", "bert"))),
        job(pod=apart(matching("NotIn", "app", "gpt"))),
        job(pod=apart(matching("Exists", "db"))),
        job(pod=apart(matching("DoesNotExist", "app"))),
        job(pod=apart(OWN, namespaces=["other"])),
        job(pod=apart(OWN, namespaceSelector=OWN)),
        # may be another job, other attempt, other worker
        job(pod=apart({"matchLabels": {"dtj.dev/job": "other"}})),
        job(pod=apart(matching("NotIn", "dtj.dev/worker", "5"))),
        job(pod=apart(OWN, matchLabelKeys=["dtj.dev/worker"])),
        job(pod=apart(OWN, mismatchLabelKeys=["dtj.dev/job"])),
        job(pod=spread(OWN, whenUnsatisfiable="ScheduleAnyway")),
        job(pod=spread(OWN, maxSkew=2)),
        job(pod=spread(OWN, key="topology.kubernetes.io/zone")),
        job(pod=spread({"matchLabels": {"app": "bert"}})),
    ],
)
def test_other_volumes_and_workers_go_together(raw: Object) -> None:
    assert not told_by(raw)


@pytest.mark.parametrize("path", ["/checkpoints", "/checkpoints/", "/x/../checkpoints"])
def test_no_other_volume_is_mounted_in_the_place_of_the_checkpoints(path: str) -> None:
    raw = job(pod={"volumes": [{"name": "own", "emptyDir": {}}]})
    raw["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": path}]
    where = "spec.template.spec.containers[0].volumeMounts[0].mountPath"
    remedy = "remove it, or set another spec.checkpoint.mountPath"
    assert told_by(raw) == [f"{where}: {path} is where spec.checkpoint is mounted; {remedy}"]
    raw["checkpoint"]["mountPath"] = "/elsewhere"
    assert not told_by(raw)


def test_modes_of_a_users_claim_are_judged_where_they_are_known() -> None:
    spec = load_job_spec(job(checkpoint={"claimName": "mine"}))
    told = [str(error) for error in storage_errors(spec, ("ReadWriteOncePod",))]
    path, remedy = "spec.checkpoint.claimName", "name a claim with ReadWriteMany, or set workers: 1"
    assert told == [f"{path}: a ReadWriteOncePod volume cannot be mounted by 2 workers; {remedy}"]
    assert not list(storage_errors(spec, ("ReadWriteOnce",)))
    assert not list(storage_errors(spec, ()))


def test_a_faulty_training_does_not_make_a_script_of_the_job() -> None:
    raw = job("ReadWriteOncePod", training=TRAINING | {"steps": 0})
    raw["checkpoint"]["everySeconds"] = 60
    raw["template"]["spec"]["containers"][0].pop("image")
    assert told_by(raw) == ["spec.training.steps: is 0; it must be at least 1"]
