"""Whatever a spec says, and in whatever state its job is: an answer, never an exception."""

import json
from typing import Any

import jsonschema
import pytest
from dtj_api import names
from dtj_api.fields import FieldError, InvalidFields
from dtj_api.spec import JobSpec
from dtj_api.status import JobStatus, decode_status, encode_status
from dtj_api.template import HOST_FEATURES
from dtj_api.validation import load_job_spec
from dtj_operator import children, events
from dtj_operator.children import Blueprint
from dtj_operator.policy.admission import examine_job
from dtj_operator.policy.lifecycle import decide
from dtj_operator.policy.refusal import told
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Child, Job, World, progress_seconds, take, user_claim_name
from dtj_operator.status import merge_patch, report
from hypothesis import HealthCheck, given, settings

from tests.api.fields.generate import specs
from tests.unit.api.test_crd import PROPERTIES
from tests.unit.operator.builders import NOW, failed, pod, succeeded

# the same examples in every run
thoroughly = settings(
    max_examples=1500, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
ANY_HOST = frozenset(HOST_FEATURES)
SETTINGS = Settings(trainer_image="trainer:1", scraper_namespaces=("monitoring",), own_namespace="dtj-system")
BEGUN = "2026-01-01T00:00:00Z"
STATUS_SCHEMA = jsonschema.Draft4Validator(PROPERTIES["status"])


def loaded(spec: Any, allowed: frozenset[str] = ANY_HOST) -> tuple[JobSpec | None, list[FieldError]]:
    try:
        return load_job_spec(spec, allowed=allowed), []
    except InvalidFields as error:
        return None, error.errors


@thoroughly
@given(specs())
def test_a_spec_is_valid_or_its_faults_are_told(spec: Any) -> None:
    for allowed in (ANY_HOST, frozenset[str]()):
        valid, faults = loaded(spec, allowed)
        assert (valid is None) == bool(faults)
        for fault in faults:
            assert fault.path.startswith("spec")
            assert fault.problem
            assert fault.remedy


@thoroughly
@given(specs())
def test_children_of_a_valid_spec_can_be_made(spec: Any) -> None:
    valid, _ = loaded(spec)
    if valid is None:
        return
    blueprint = Blueprint("ml", "gpt", "uid", 3, valid, "trainer:1", volume_modes=("ReadWriteOnce",))
    made = [*children.prerequisites(blueprint), *children.rehearsal(blueprint), *children.pods(blueprint, [0])]
    for child in made:
        json.dumps(child, allow_nan=False)
        labels = child["metadata"]["labels"]
        assert labels[names.LABEL_JOB] == "gpt"
        assert child["kind"] != "Pod" or labels[names.LABEL_ATTEMPT] == "3"


@thoroughly
@given(specs())
def test_what_admission_finds_can_be_told(spec: Any) -> None:
    job = Job("ml", "gpt", "uid", 1, "1", spec, JobStatus(), {})
    examined = examine_job(take(job, [], None), SETTINGS)
    assert told(examined.faults) or not examined.faults
    json.dumps(examined.rehearse, allow_nan=False)


def condition(kind: str, status: str = "True", reason: str = "X") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": BEGUN,
    }


def status(*conditions: dict[str, Any], attempt: int = 1) -> JobStatus:
    return decode_status(
        {
            "phase": "Running",
            "attempt": attempt,
            "workers": {"desired": 2},
            "startTime": BEGUN,
            "completionTime": "2026-01-01T00:00:30Z",
            "attempts": [{"attempt": attempt, "startTime": BEGUN}],
            "conditions": list(conditions),
        }
    )


CREATED = condition("Created")
STATES: dict[str, tuple[JobStatus, list[Any]]] = {
    "new": (JobStatus(), []),
    "begun": (status(condition("Created", "False")), []),
    "half made": (status(condition("Created", "False")), [pod(0, attempt=1)]),
    "waiting for its restart": (status(condition("Created", "False"), condition("Restarting")), []),
    "starting": (status(CREATED), [pod(n, attempt=1, trainer_running=False, phase="Pending") for n in (0, 1)]),
    "running": (status(CREATED, condition("Running")), [pod(0, attempt=1), pod(1, attempt=1)]),
    "failing": (status(CREATED, condition("Running")), [pod(0, attempt=1), failed(1, 1, attempt=1)]),
    "a signal": (status(CREATED, condition("Running")), [failed(0, 137, attempt=1), failed(1, 201, attempt=1)]),
    "succeeding": (status(CREATED, condition("Running")), [succeeded(0), succeeded(1)]),
    "suspending": (status(condition("Suspended", "False", "Suspending")), [pod(0, attempt=1)]),
    "suspended": (status(condition("Suspended")), []),
    "failed": (status(CREATED, condition("Failed")), [pod(0, attempt=1), failed(1, 1, attempt=1)]),
}
CHILDREN = (Child("Service", "gpt-1", "u1", 1), Child("PersistentVolumeClaim", "gpt-checkpoints", "u2"))


@pytest.mark.parametrize("state", STATES)
@settings(thoroughly, max_examples=300)
@given(spec=specs())
def test_every_state_of_a_job_has_a_next_step_that_can_be_told(state: str, spec: Any) -> None:
    before, pods = STATES[state]
    job = Job("ml", "gpt", "uid", 2, "7", spec, before, encode_status(before))
    progress_seconds(job)
    assert take(job, [], None).user_claim is (None if user_claim_name(job) is None else False)
    world = World(job, {p.worker: p for p in pods}, children=CHILDREN, volume_modes=("ReadWriteOncePod",))
    decision = decide(world, NOW, SETTINGS)
    if decision.hands_off or decision.delete_job:
        return
    after = report(world, decision, NOW)
    json.dumps(merge_patch(job.raw_status, after), allow_nan=False)
    STATUS_SCHEMA.validate(encode_status(after))
    for event in events.of_transition(job, after, NOW):
        assert len(event["message"]) <= 1024
