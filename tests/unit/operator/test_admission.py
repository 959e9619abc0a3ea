"""policy/admission.py: what is wrong with a spec, and what the API server is still asked."""

from typing import Any

import pytest
from dtj_api import names
from dtj_operator.policy.admission import examine_job
from dtj_operator.snapshot import World, read_job, take

from tests.unit.operator.builders import SCRIPT, SETTINGS, TRAINING


def world(spec: Any, status: Any = None, claim_modes: list[str] | None = None) -> World:
    metadata = {"namespace": "ml", "name": "gpt", "uid": "u", "generation": 1, "resourceVersion": "1"}
    job = read_job({"kind": names.KIND, "metadata": metadata, "spec": spec, "status": status})
    assert job is not None
    claim = {"metadata": {"name": "mine"}, "spec": {"accessModes": claim_modes}} if claim_modes else None
    return take(job, [], claim)


def rehearsed(spec: Any, status: Any = None) -> list[str]:
    return [thing["metadata"]["name"] for thing in examine_job(world(spec, status), SETTINGS).rehearse]


def test_valid_job_has_no_fault_and_its_first_worker_is_rehearsed() -> None:
    examined = examine_job(world({"workers": 4, "template": SCRIPT}), SETTINGS)
    assert examined.faults == ()
    pods = [thing["metadata"]["name"] for thing in examined.rehearse if thing["kind"] == "Pod"]
    assert pods == ["gpt-0-0"]


def test_the_attempt_to_come_is_rehearsed() -> None:
    assert "gpt-3-0" in rehearsed({"workers": 1, "template": SCRIPT}, {"attempt": 2})


@pytest.mark.parametrize(
    ("fault", "path"), [({"batch": {"global": 7}}, "batch.global"), ({"optimiser": {"name": "adamw"}}, "optimiser")]
)
def test_sound_spec_with_faults_is_rehearsed_too_so_that_all_is_told_together(fault: Any, path: str) -> None:
    examined = examine_job(world({"workers": 2, "training": TRAINING | fault}), SETTINGS)
    assert [error.path for error in examined.faults] == [f"spec.training.{path}"]
    assert examined.rehearse


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "gpt",
        {"workers": 0, "template": SCRIPT},
        {"workers": 2, "template": "x"},
        {"workers": 2, "template": {"spec": {"containers": [{"name": "trainer", "image": "a", "env": {"A": "1"}}]}}},
        {"workers": 2, "training": TRAINING | {"steps": "many"}},
    ],
)
def test_spec_with_a_field_that_means_nothing_is_not_rehearsed(spec: Any) -> None:
    examined = examine_job(world(spec), SETTINGS)
    assert examined.faults
    assert examined.rehearse == ()


def test_claim_that_not_all_workers_can_mount_is_a_fault() -> None:
    spec = {"workers": 2, "template": SCRIPT, "checkpoint": {"claimName": "mine"}}
    assert examine_job(world(spec), SETTINGS).faults == ()
    [error] = examine_job(world(spec, claim_modes=["ReadWriteOncePod"]), SETTINGS).faults
    assert error.path == "spec.checkpoint.claimName"


def test_workers_kept_apart_by_the_name_of_their_job_cannot_share_a_volume() -> None:
    mates = {"topologyKey": names.LABEL_NODE, "labelSelector": {"matchLabels": {names.LABEL_JOB: "gpt"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [mates]}}
    template = {"spec": SCRIPT["spec"] | {"affinity": apart}}
    for checkpoint in ({"size": "1Gi"}, {"claimName": "mine"}):
        spec = {"workers": 2, "template": template, "checkpoint": checkpoint}
        [error] = examine_job(world(spec, claim_modes=["ReadWriteOnce"]), SETTINGS).faults
        assert "podAntiAffinity" in error.problem
