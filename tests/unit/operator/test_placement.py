"""policy/placement.py as a table: what keeps a created gang from running -> the reason and the words told."""

import pytest
from dtj_api.status import Condition, JobStatus
from dtj_operator.pods import Pod, Waiting
from dtj_operator.policy.placement import obstacle
from dtj_operator.snapshot import Job, World

from tests.unit.operator.builders import pod


def world(*pods: Pod, told: str = "", claims: tuple[str, ...] = ()) -> World:
    running = Condition("Running", "False", "ImagePullFailed", told, "2026-01-01T00:00:00Z", 1)
    status = JobStatus(phase="Pending", conditions=(running,) if told else ())
    return World(Job("ml", "gpt", "u", 1, "1", {}, status, {}), {p.worker: p for p in pods}, claims_pending=claims)


def starting(worker: int, reason: str = "", message: str = "", unschedulable: str | None = None) -> Pod:
    waiting = (Waiting("trainer", "mine:1", reason, message),) if reason else ()
    return pod(worker, phase="Pending", trainer_running=False, waiting=waiting, unschedulable=unschedulable)


CASES = {
    "an image that is not there": (
        world(pod(0), starting(1, "ErrImagePull", "not found")),
        "ImagePullFailed",
        "worker 1 (pod gpt-0-1, node n1): image mine:1 cannot be pulled: not found; push that image",
    ),
    "a back-off that was not seen to begin": (
        world(starting(0, "ImagePullBackOff", 'Back-off pulling image "mine:1"')),
        "ImagePullFailed",
        "cannot be pulled: Back-off",
    ),
    "a back-off keeps what the error said": (
        world(
            starting(0, "ImagePullBackOff", 'Back-off pulling image "mine:1"'),
            told="worker 0 (pod gpt-0-0, node n0): image mine:1 cannot be pulled: not found",
        ),
        "ImagePullFailed",
        "cannot be pulled: not found",
    ),
    "a secret that is not there": (
        world(starting(0, "CreateContainerConfigError", 'secret "x" not found')),
        "ContainerConfigError",
        'CreateContainerConfigError: secret "x" not found; make what it names',
    ),
    "no node": (
        world(pod(0), starting(1, unschedulable="0/2 nodes are available.")),
        "Unschedulable",
        "worker 1 (pod gpt-0-1, node n1) cannot be placed: 0/2 nodes are available; free or add nodes",
    ),
    "a claim": (
        world(starting(0, unschedulable="unbound immediate PersistentVolumeClaims"), claims=("gpt-checkpoints",)),
        "ClaimNotBound",
        "kubectl describe pvc gpt-checkpoints",
    ),
    "an image before a node": (
        world(starting(0, unschedulable="0/2"), starting(1, "ErrImagePull", "x")),
        "ImagePullFailed",
        "worker 1",
    ),
}


@pytest.mark.parametrize(("seen", "reason", "words"), CASES.values(), ids=CASES.keys())
def test_obstacle(seen: World, reason: str, words: str) -> None:
    found = obstacle(seen)
    assert found is not None
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "PodInitializing"])
def test_starting_is_no_obstacle(reason: str) -> None:
    assert obstacle(world(pod(0), starting(1, reason))) is None
