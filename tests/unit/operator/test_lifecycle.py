"""policy/lifecycle.py: any spec gets an answer, and what no worker can change once it is decided."""

import copy
import random
from typing import Any

import pytest
from dtj_api.status import Condition, JobStatus, Workers, encode_status
from dtj_operator.pods import Pod, Waiting
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.lifecycle import decide
from dtj_operator.snapshot import Blocker, Job, World

from tests.unit.operator.builders import NOW, SCRIPT, SETTINGS, TRAINING, failed, pod, succeeded

FULL = {
    "workers": 2,
    "processesPerWorker": "auto",
    "training": TRAINING,
    "checkpoint": {"claimName": "mine", "mountPath": "/c"},
    "monitoring": {"port": 9000},
    "template": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "securityContext": {"runAsUser": 5},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "trainer",
                    "image": "i",
                    "env": [{"name": "A", "value": "1"}],
                    "ports": [{"name": "p", "containerPort": 1}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    "resources": {"limits": {"nvidia.com/gpu": 2}},
                    "securityContext": {"capabilities": {"add": ["X"]}},
                }
            ],
        },
    },
}


GOOD = {"workers": 2, "template": SCRIPT}
NEVER_AGAIN = {**GOOD, "restart": {"policy": "Never"}}


def job(spec: Any, status: JobStatus | None = None) -> Job:
    status = status or JobStatus()
    return Job("ml", "gpt", "uid-1", 1, "1", spec, status, encode_status(status))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place below `value`."""
    found = [path] if path else []
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += places(value[key], (*path, key))
    return found


@pytest.mark.parametrize("wrong", [None, 0, -1, 3.5, True, "", "x", [], {}, [None], [{}], ["x"], {"x": None}, 10**30])
def test_any_value_at_any_place_of_a_spec_gets_an_answer(wrong: Any) -> None:
    for place in places(FULL):
        spec = copy.deepcopy(FULL)
        target: Any = spec
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = wrong
        decision = decide(World(job(spec), user_claim=True), NOW, SETTINGS)
        assert decision.phase in ("Invalid", "Pending"), place
        assert (decision.begin is None) == (decision.phase == "Invalid"), place


@pytest.mark.parametrize("spec", [None, [], "x", 3, {}, {"template": 3}, {"workers": 1, "template": {}}])
def test_any_spec_gets_an_answer(spec: Any) -> None:
    assert decide(World(job(spec)), NOW, SETTINGS).phase == "Invalid"


def test_the_message_about_many_faults_is_bounded() -> None:
    variables = [{"name": "RANK"} for _ in range(5000)]
    container = {"name": "trainer", "image": "x", "env": variables}
    spec = {"workers": 1, "template": {"spec": {"containers": [container]}}}
    message = decide(World(job(spec)), NOW, SETTINGS).findings[0].message
    assert "and 4980 more" in message
    assert len(message) < 20_000


def status(**conditions: str) -> JobStatus:
    made = tuple(Condition(kind, "True", value, "", "2026-01-01T00:00:00Z", 1) for kind, value in conditions.items())  # type: ignore[arg-type]
    return JobStatus(phase="Running", attempt=0, workers=Workers(2), conditions=made)


def test_a_created_gang_is_followed_whatever_its_spec_says_now() -> None:
    for spec in ({"workers": 7}, GOOD):
        world = World(job(spec, status(Created="GangCreated")), pods={0: pod(0), 1: pod(1)})
        decision = decide(world, NOW, SETTINGS)
        assert decision.phase == "Running"
        assert not decision.create_pods


GANGS: dict[str, tuple[list[Pod], str, str]] = {
    "all run": ([pod(0), pod(1)], "Running", "AllWorkersRunning"),
    "one is done, one runs": ([succeeded(0), pod(1)], "Running", "AllWorkersRunning"),
    "all are done": ([succeeded(0), succeeded(1)], "Succeeded", "AllWorkersSucceeded"),
    "one starts": ([pod(0), pod(1, phase="Pending", trainer_running=False)], "Pending", "Starting"),
    "one cannot be placed": (
        [pod(0), pod(1, phase="Pending", trainer_running=False, unschedulable="0/2 nodes")],
        "Pending",
        "Unschedulable",
    ),
    "one lacks a secret": (
        [pod(0), pod(1, trainer_running=False, waiting=(Waiting("t", "i", "CreateContainerConfigError", "secret"),))],
        "Pending",
        "ContainerConfigError",
    ),
    "one failed": ([pod(0), failed(1, 1)], "Failed", "Error"),
}


@pytest.mark.parametrize(("pods", "phase", "reason"), GANGS.values(), ids=GANGS.keys())
def test_phase_of_a_created_gang(pods: list[Pod], phase: str, reason: str) -> None:
    world = World(job(NEVER_AGAIN, status(Created="GangCreated")), pods={p.worker: p for p in pods})
    decision = decide(world, NOW, SETTINGS)
    assert decision.phase == phase
    assert decision.findings[-1].reason == reason


def test_a_claim_that_is_not_bound_is_named() -> None:
    waiting = pod(0, phase="Pending", trainer_running=False, unschedulable="pod has unbound PersistentVolumeClaims")
    world = World(job({}, status(Created="x")), pods={0: waiting, 1: pod(1)}, claims_pending=("gpt-checkpoints",))
    finding = decide(world, NOW, SETTINGS).findings[0]
    assert finding.reason == "ClaimNotBound"
    assert "kubectl describe pvc gpt-checkpoints" in finding.message


def test_a_running_gang_stays_running_when_a_container_is_seen_waiting() -> None:
    world = World(job({}, status(Created="x", Running="y")), pods={0: pod(0), 1: pod(1, trainer_running=False)})
    assert decide(world, NOW, SETTINGS).phase == "Running"


@pytest.mark.parametrize("verdict", ["Succeeded", "Failed"])
def test_a_finished_job_makes_nothing_and_stops_what_still_runs(verdict: str) -> None:
    over = status(Created="x", **{verdict: "y"})
    going = pod(1, deletion_due=NOW)
    gangs: list[dict[int, Pod]] = [{}, {0: pod(0), 1: going}, {0: failed(0, 1)}, {0: succeeded(0), 1: failed(1, 1)}]
    removed = []
    for pods in gangs:
        decision = decide(World(job(FULL, over), pods=pods), NOW, SETTINGS)
        assert decision == Decision(remove=decision.remove)
        removed.append([p.worker for p in decision.remove])
    assert removed == [[], [0], [], []]


def test_a_claim_of_that_name_can_be_used_instead() -> None:
    taken = (Blocker("PersistentVolumeClaim", "gpt-checkpoints", "nobody", leftover=False),)
    decision = decide(World(job({"workers": 1, "template": SCRIPT}), blockers=taken), NOW, SETTINGS)
    assert decision.findings[0].reason == "NameTaken"
    assert "spec.checkpoint.claimName" in decision.findings[0].message


def test_same_world_same_decision() -> None:
    worlds = [
        World(job(FULL, status(Created="x")), pods={0: pod(0), 1: failed(1, random.Random(7).randrange(1, 200))})
    ] * 2
    assert decide(worlds[0], NOW, SETTINGS) == decide(worlds[1], NOW, SETTINGS)
