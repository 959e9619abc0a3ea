"""Rules that span fields, as a table: a change to a good job, and what is said of it."""

import copy
from typing import Any

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_api.fields import InvalidFields
from dtj_api.reasons import REASONS
from dtj_api.validation import load_job_spec, world_size

GOOD: dict[str, Any] = {
    "workers": 2,
    "processesPerWorker": 2,
    "training": {
        "model": {"name": "gpt", "size": "tiny"},
        "data": {"text": "tinydocs"},
        "steps": 10,
        "batch": {"global": 16},
    },
    "checkpoint": {"size": "1Gi"},
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """GOOD with values set at dotted paths; None removes."""
    spec = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = spec
        for name in parents:
            place = place.setdefault(name, {})
        if value is None:
            place.pop(last)
        else:
            place[last] = value
    return spec


SCRIPT: dict[str, Any] = {
    "training": None,
    "template": {"spec": {"containers": [{"name": "trainer", "image": "mine:1"}]}},
}

CASES: list[tuple[dict[str, Any], str]] = [
    ({"training": None}, "spec: has neither training nor template"),
    ({"training.batch.global": 10}, "spec.training.batch.global: 10 does not divide by 4"),
    ({"training.batch.accumulation": 3}, "spec.training.batch.global: 16 does not divide by 12"),
    ({"training.batch.perProcess": 4}, "spec.training.batch: has both global and perProcess"),
    ({"training.batch.global": None}, "spec.training.batch: has neither global nor perProcess"),
    ({"training.model.size": "huge"}, "spec.training.model.size: 'huge' is not a size of gpt; choose one of: tiny"),
    (
        {"training.model": {"name": "gpt", "dimensions": {"layers": 1, "width": 30, "heads": 4}}},
        "spec.training.model.dimensions.width: 30 does not divide by heads (4); use a multiple of 4, such as 32",
    ),
    (
        {"training.model": {"name": "gpt", "dimensions": {"layers": 1, "width": 32}}},
        "spec.training.model.dimensions.heads: is missing",
    ),
    ({"training.model.dimensions": {"layers": 1, "width": 32}}, "spec.training.model: has both size and dimensions"),
    ({"training.data": {}}, "spec.training.data: names no data; set exactly one of text, tokens, images"),
    ({"training.data.images": "digits"}, "spec.training.data: has text and images"),
    ({"training.data": {"images": "digits"}}, "spec.training.data.images: gpt cannot train on images"),
    ({"training.data.text": "wikipedia"}, "spec.training.data.text: 'wikipedia' is unknown"),
    ({"training.data": {"tokens": "/data"}}, "spec.training.data.vocabularySize: is missing"),
    (
        {"training.data": {"tokens": "data", "vocabularySize": 9}},
        "spec.training.data.tokens: 'data' is not an absolute",
    ),
    ({"training.data.vocabularySize": 9}, "spec.training.data.vocabularySize: is only for tokens"),
    ({"checkpoint": {}}, "spec.checkpoint: has neither size nor claimName"),
    ({"checkpoint": {"claimName": "My Claim"}}, "spec.checkpoint.claimName: 'My Claim' is not a name of a-z"),
    ({"monitoring.port": 29500}, "spec.monitoring.port: 29500 is the port of the ranks' rendezvous"),
    ({"checkpoint.claimName": "c"}, "spec.checkpoint: has both size and claimName"),
    ({"checkpoint.mountPath": "c"}, "spec.checkpoint.mountPath: 'c' is not an absolute path"),
    ({"checkpoint.mountPath": "/x/.."}, "spec.checkpoint.mountPath: '/x/..' cannot be used"),
    (
        {"checkpoint": {"claimName": "c", "storageClassName": "fast"}},
        "spec.checkpoint: storageClassName and accessModes are of the claim that spec.checkpoint.size creates; with "
        "claimName remove them",
    ),
    (
        {"checkpoint": {"claimName": "c", "accessModes": ["ReadWriteMany"]}},
        "spec.checkpoint: storageClassName and accessModes are of the claim that spec.checkpoint.size creates; with",
    ),
    ({"checkpoint.subPath": "runs/../.."}, "spec.checkpoint.subPath: 'runs/../..' leads out of the volume; write"),
    ({"checkpoint.subPath": "/runs"}, "spec.checkpoint.subPath: '/runs' is not a relative path such as runs/gpt"),
    (
        SCRIPT | {"checkpoint.resume": "never"},
        "spec.checkpoint.resume: is only for spec.training; remove it: your script decides, it finds the folder in "
        "DTJ_CHECKPOINT_DIR",
    ),
    (SCRIPT | {"checkpoint.resume": 100}, "spec.checkpoint.resume: is only for spec.training; remove it: your"),
    (SCRIPT | {"checkpoint.everySeconds": 60}, "spec.checkpoint.everySeconds: is only for spec.training; remove it"),
    (
        {"failureRules": [{"action": "FailJob", "onReasons": ["Evicted"]}, {"action": "FailJob", "onReasons": []}]},
        "spec.failureRules[1]: a rule needs at least one of onExitCodes, onReasons, onPodConditions and "
        "onNodeConditions; add one, or remove the rule",
    ),
    (
        {"failureRules": [{"action": "Ignore", "onReasons": ["Evicted", "OomKilled"]}]},
        "spec.failureRules[0].onReasons[1]: 'OomKilled' is not a known reason; did you mean OOMKilled?",
    ),
    (
        {"failureRules": [{"action": "Ignore", "onReasons": ["sigterm"]}]},
        "spec.failureRules[0].onReasons[0]: 'sigterm' is not a known reason; did you mean SIGTERM?",
    ),
    (
        {"template": {"spec": {"containers": [{"name": "trainer", "command": ["x"]}]}}},
        "spec.template.spec.containers[0].command: cannot be set beside spec.training",
    ),
]


@pytest.mark.parametrize(("changes", "message"), CASES)
def test_a_fault_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidFields) as caught:
        load_job_spec(changed(changes))
    assert [str(e) for e in caught.value.errors if str(e).startswith(message)], str(caught.value)


def test_an_unknown_key_does_not_hide_the_other_faults() -> None:
    with pytest.raises(InvalidFields) as caught:
        load_job_spec(changed({"training.optimiser": {}, "training.batch.global": 10, "checkpoint.mountPath": "c"}))
    assert len(caught.value.errors) == 3


def test_what_only_follows_from_a_fault_is_not_told() -> None:
    with pytest.raises(InvalidFields) as caught:
        load_job_spec(changed({"training.batch.global": "many", "checkpoint.size": "10 GB"}))
    assert [error.path for error in caught.value.errors] == ["spec.training.batch.global", "spec.checkpoint.size"]


@pytest.mark.parametrize(
    ("changes", "faulty"),
    [
        ({"processesPerWorker": 0, "training.batch.global": 7}, ["spec.processesPerWorker"]),
        (
            {"processesPerWorker": "auto", "training.batch.global": 7, "template": {"spec": {"containers": [7]}}},
            ["spec.template.spec.containers[0]"],
        ),
        ({"checkpoint": {"size": "big", "storageClassName": "fast"}}, ["spec.checkpoint.size"]),
        ({"training.steps": None, "template": {"spec": {"containers": [{}]}}}, ["spec.training.steps"]),
        ({"failureRules": [{"action": "Ignore", "onReasons": 7}]}, ["spec.failureRules[0].onReasons"]),
    ],
)
def test_what_is_computed_from_a_faulty_field_is_not_told(changes: dict[str, Any], faulty: list[str]) -> None:
    with pytest.raises(InvalidFields) as caught:
        load_job_spec(changed(changes))
    assert [error.path for error in caught.value.errors] == faulty


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint.storageClassName": "fast", "checkpoint.accessModes": ["ReadWriteMany"]},
        {"checkpoint.subPath": "runs/..gpt"},
        {"checkpoint.resume": "never", "checkpoint.everySeconds": 60},
        {"checkpoint.resume": 100},
        SCRIPT,
        SCRIPT | {"checkpoint.resume": "auto", "checkpoint.everySteps": 7, "checkpoint.keepLast": 1},
        {"failureRules": [{"action": "FailJob", "onExitCodes": {"values": [3]}}]},
        {"failureRules": [{"action": "Ignore", "onNodeConditions": [{"type": "GpuFault"}]}]},
        {"failureRules": [{"action": "Ignore", "onReasons": ["OOMKilled", "SIGSEGV", "ValueError", "OSError"]}]},
    ],
)
def test_what_is_next_to_a_fault_is_good(changes: dict[str, Any]) -> None:
    load_job_spec(changed(changes))


def test_every_reason_of_the_trainer_is_known() -> None:
    assert {code.reason for code in ExitCode} - {"Success"} <= set(REASONS)


def test_the_good_job_is_good() -> None:
    assert world_size(load_job_spec(GOOD)) == 4


@pytest.mark.parametrize(
    ("resources", "processes"),
    [
        ({"limits": {"nvidia.com/gpu": "8"}}, 8),
        ({"requests": {"amd.com/gpu": 2}}, 2),
        ({"limits": {"cpu": "8"}}, 1),
        ({"limits": {"nvidia.com/gpu": "many"}}, 1),
        ({}, 1),
    ],
)
def test_auto_processes_follow_the_gpus_of_the_trainer_container(resources: Any, processes: int) -> None:
    containers = [{"name": "sidecar"}, {"name": "trainer", "resources": resources}]
    spec = changed({"template": {"spec": {"containers": containers}}, "processesPerWorker": "auto"})
    assert world_size(load_job_spec(spec)) == 2 * processes


@pytest.mark.parametrize("processes", ["all", True, 0, 257, 1.5])
def test_other_processes_per_worker_are_refused(processes: Any) -> None:
    with pytest.raises(InvalidFields, match=r"spec\.processesPerWorker"):
        load_job_spec(changed({"processesPerWorker": processes}))
