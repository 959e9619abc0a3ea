"""policy/failure.py as a table: what is seen of a gang of two -> the reason and the words of the verdict."""

import json
from datetime import timedelta

import pytest
from dtj_operator.pods import ContainerEnd, Node, Pod, Waiting
from dtj_operator.policy.failure import Patience, Settling, Verdict, judge

from tests.unit.operator.builders import NOW, ago, failed, pod, succeeded

PATIENCE = Patience(settle_seconds=3.0, lost_node_seconds=30.0)


def verdict(*pods: Pod, workers: int = 2, nodes: tuple[Node, ...] = ()) -> Verdict | Settling | None:
    return judge({p.worker: p for p in pods}, range(workers), NOW, PATIENCE, {node.name: node for node in nodes})


def record(
    exit_code: int, reason: str, message: str = "boom", rank: int = 3, time: str = "2026-01-01T00:00:50Z"
) -> str:
    failure = {"rank": rank, "exitCode": exit_code, "reason": reason, "message": message, "time": time}
    return json.dumps({"failure": failure})


CASES = {
    "a signal": (
        [pod(0), failed(1, 137, message="step 41\n")],
        "SIGKILL",
        "worker 1 (pod gpt-0-1, node n1) exited with 137 (SIGKILL): step 41; read `kubectl logs gpt-0-1`",
    ),
    "out of memory": (
        [pod(0), failed(1, 137, reason_of_end="OOMKilled")],
        "OOMKilled",
        "exited with 137 (OOMKilled, SIGKILL); raise resources.limits.memory",
    ),
    "a segmentation fault": ([pod(0), failed(1, 139)], "SIGSEGV", "exited with 139 (SIGSEGV)"),
    "a script's own exit code and last words": (
        [pod(0), failed(1, 3, message="Traceback\nValueError: no data\n\n")],
        "Error",
        "exited with 3: ValueError: no data; read `kubectl logs gpt-0-1`",
    ),
    "the rank's exception rather than torchrun's table": (
        [pod(0), failed(1, 1, message="[rank1]: ValueError: no data\nx.errors.ChildFailedError: \n===\n rank: 1\n")],
        "Error",
        "exited with 1: [rank1]: ValueError: no data;",
    ),
    "a script's code is not the trainer's": ([pod(0), failed(1, 68)], "Error", "exited with 68;"),
    "the trainer's code": ([pod(0), failed(1, 68, built_in=True)], "StorageFull", "68 (StorageFull); free space"),
    "the trainer's record": (
        [pod(0), failed(1, 1, built_in=True, message=record(1, "Error", "ValueError: bad"))],
        "Error",
        "exited with 1 (Error), rank 3 first: ValueError: bad; read",
    ),
    "the record's code where the launcher's differs": (
        [pod(0), failed(1, 1, built_in=True, message=record(139, "SIGSEGV"))],
        "SIGSEGV",
        "exited with 1 (Error), rank 3 first with 139: boom",
    ),
    "a command that is not there": (
        [pod(0), failed(1, 128, reason_of_end="StartError", message="exec: \"x\": not found")],
        "StartError",
        "exec: \"x\": not found; check command and args",
    ),
    "a deleted pod": ([pod(0)], "PodDeleted", "worker 1's pod was deleted; delete the job and create it anew"),
    "a deleted pod that still ends": (
        [pod(0), failed(1, 143, deletion_due=ago(0))],
        "PodDeleted",
        "worker 1 (pod gpt-0-1, node n1) was deleted (PodDeleted) and exited with 143 (SIGTERM)",
    ),
    "an eviction through the API": (
        [pod(0), failed(1, 143, deletion_due=ago(0), disruption="EvictionByEvictionAPI")],
        "Drained",
        "was deleted (Drained) and exited with 143",
    ),
    "a shutdown of its node": (
        [pod(0), pod(1, phase="Failed", reason="Terminated", message="imminent node shutdown",
                     disruption="TerminationByKubelet")],
        "NodeShutdown",
        "was ended by its node (Terminated): imminent node shutdown",
    ),
    "where an exception was raised": (
        [pod(0), failed(1, 1, message='Traceback\n  File "/a/train.py", line 7, in main\n  File "/a/data.py", '
                                      'line 31, in load\nValueError: no data\n')],
        "Error",
        "exited with 1: ValueError: no data (/a/data.py:31 in load);",
    ),
    "a script that lost its peer is never the cause while there is one": (
        [failed(0, 1, 9, message="RuntimeError: [gloo] Connection closed by peer [10.0.0.2]:1234"), failed(1, 3, 8)],
        "Error",
        "worker 1",
    ),
    "a preemption": (
        [pod(0), failed(1, 143, disruption="PreemptionByScheduler")],
        "Preempted",
        "priorityClassName",
    ),
    "an eviction by the kubelet": (
        [pod(0), pod(1, phase="Failed", reason="Evicted", message="The node was low on resource: memory.")],
        "Evicted",
        "was ended by its node (Evicted): The node was low on resource: memory; request what",
    ),
    "a node that refuses the pod": (
        [pod(0), pod(1, phase="Failed", reason="OutOfcpu", message="Node didn't have enough resource")],
        "OutOfcpu",
        "Node didn't have enough resource",
    ),
    "a lost node": (
        [pod(0), pod(1, deletion_due=ago(4), disruption="DeletionByTaintManager")],
        "NodeLost",
        "its node has not confirmed its end; see `kubectl get nodes`",
    ),
    "a pod that failed without a word": ([pod(0), pod(1, phase="Failed")], "PodFailed", "failed"),
    "an image name that is none": (
        [pod(0), pod(1, phase="Pending", trainer_running=False,
                     waiting=(Waiting("trainer", "A:B", "InvalidImageName", "could not parse"),))],
        "InvalidImageName",
        "cannot start: could not parse; correct the image's name",
    ),
    "another container": (
        [pod(0), pod(1, phase="Failed", other_end=ContainerEnd("proxy", 2, "Error", "no port", ago(10)))],
        "Error",
        "container proxy exited with 2: no port",
    ),
    "the trainer ends while a sidecar goes on": ([pod(0), failed(1, 3, phase="Running")], "Error", "exited with 3"),
    "the first of two causes": ([failed(0, 137, 5), failed(1, 139, 9)], "SIGSEGV", "worker 1"),
    "a cause that is late but sure, before an exit code that may be a symptom": (
        [failed(0, 1, 9), failed(1, 137, 8)],
        "SIGKILL",
        "worker 1",
    ),
    "two exit codes in the same second: the lower worker": ([failed(0, 1, 9), failed(1, 1, 9)], "Error", "worker 0"),
    "an exit code long before a signal is the cause": ([failed(0, 1, 30), failed(1, 137, 8)], "Error", "worker 0"),
    "a lost peer is never the cause while there is one": (
        [failed(0, 201, 40, built_in=True), failed(1, 137, 8)],
        "SIGKILL",
        "worker 1",
    ),
    "a record's time is finer than the kubelet's": (
        [failed(0, 1, 10, built_in=True, message=record(1, "Error", time="2026-01-01T00:00:50.7Z")),
         failed(1, 1, 10, built_in=True, message=record(1, "Error", time="2026-01-01T00:00:50.2Z"))],
        "Error",
        "worker 1",
    ),
    "only symptoms, long enough": ([pod(0), failed(1, 201, 4, built_in=True)], "PeerLost", "no worker told why"),
    "only symptoms, from all": (
        [failed(0, 201, 1, built_in=True), failed(1, 201, 1, built_in=True)],
        "PeerLost",
        "worker 0",
    ),
    "a symptom of a clock far ahead": ([pod(0), failed(1, 201, -100, built_in=True)], "PeerLost", "worker 1"),
    "one succeeded, one failed": ([succeeded(0), failed(1, 1, 1)], "Error", "worker 1"),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "reason", "words"), CASES.values(), ids=CASES.keys())
def test_verdict(pods: list[Pod], reason: str, words: str) -> None:
    found = verdict(*pods)
    assert isinstance(found, Verdict), found
    assert found.reason == reason
    assert words in f"{found.story}; {found.remedy}"


WAITING = {
    "a symptom waits for its cause": ([pod(0), failed(1, 201, 1, built_in=True)], 2.0),
    "so does a script's exit code": ([pod(0), failed(1, 1, 2)], 1.0),
    "also when its record is old: the supervisor waited for its other ranks": (
        [pod(0), failed(1, 201, 1, built_in=True, message=record(201, "PeerLost", time="2026-01-01T00:00:01Z"))],
        2.0,
    ),
    "and the record of a lost peer": (
        [pod(0), failed(1, 1, 1, built_in=True, message=record(201, "PeerLost", time="2026-01-01T00:00:59Z"))],
        2.0,
    ),
    "a deleted pod that has time to end": ([pod(0), pod(1, deletion_due=NOW + timedelta(seconds=30))], 33.0),
}


@pytest.mark.parametrize(("pods", "seconds"), WAITING.values(), ids=WAITING.keys())
def test_waits_for_evidence(pods: list[Pod], seconds: float) -> None:
    assert verdict(*pods) == Settling(seconds)


FINE = {
    "all run": [pod(0), pod(1)],
    "one is done": [succeeded(0), pod(1)],
    "one starts": [pod(0), pod(1, phase="Pending", trainer_running=False)],
    "one image is being pulled again": [
        pod(0),
        pod(1, phase="Pending", waiting=(Waiting("trainer", "x", "ImagePullBackOff"),)),
    ],
}


@pytest.mark.parametrize("pods", FINE.values(), ids=FINE.keys())
def test_nothing_failed(pods: list[Pod]) -> None:
    assert verdict(*pods) is None


@pytest.mark.parametrize("message", ["[" * 100_000, "1e999", '{"failure": 3}', "\x00\x1b[31mred", "é" * 5000])
def test_any_last_words_are_survived_and_bounded(message: str) -> None:
    found = verdict(pod(0), failed(1, 1, built_in=True, message=message))
    assert isinstance(found, Verdict)
    assert len(found.story) < 1024
    assert found.story.isprintable()


def down(name: str, seconds: float) -> Node:
    return Node(name, {"Ready": "Unknown"}, unready_since=ago(seconds))


LOST = {
    "its node is away for long": ([pod(1)], [down("n1", 31)], "NodeLost"),
    "not for long yet": ([pod(1)], [down("n1", 10)], Settling(20.0)),
    "its node was deleted": ([pod(1)], [Node("n1", gone=True)], "NodeLost"),
    "its node is well": ([pod(1)], [Node("n1", {"Ready": "True"})], None),
    "a pod that never started on a node that is away": (
        [pod(1, phase="Pending", trainer_running=False, trainer_ready=False)],
        [down("n1", 31)],
        "NodeLost",
    ),
    "deleted, its node away: not longer than either": (
        [pod(1, deletion_due=NOW + timedelta(seconds=300), disruption="DeletionByTaintManager")],
        [down("n1", 31)],
        "NodeLost",
    ),
    "it succeeded before": ([succeeded(1)], [down("n1", 31)], None),
}


@pytest.mark.parametrize(("pods", "nodes", "expected"), LOST.values(), ids=LOST.keys())
def test_a_lost_node_is_given_up_in_bounded_time(
    pods: list[Pod], nodes: list[Node], expected: str | Settling | None
) -> None:
    found = verdict(pod(0), *pods, nodes=tuple(nodes))
    assert (found.reason if isinstance(found, Verdict) else found) == expected
    assert not isinstance(found, Verdict) or found.disrupted


def test_the_verdict_names_rank_code_node_and_how_the_others_ended() -> None:
    found = verdict(failed(0, 201, 5, built_in=True), failed(1, 1, 9, built_in=True, message=record(139, "SIGSEGV")))
    assert isinstance(found, Verdict)
    assert (found.worker, found.rank, found.exit_code, found.pod and found.pod.node) == (1, 3, 139, "n1")
    assert found.evidence == ("worker 0 (pod gpt-0-0, node n0) exited with 201 (PeerLost)",)


RANKS = {
    "one process a pod: the worker's": ("ValueError: x", 1, 1),
    "by the prefix of torchrun": ("[rank3]: ValueError: x", 2, 3),
    "by the table of torchrun": ("Root Cause:\n  rank      : 2 (local_rank: 0)\n", 2, 2),
    "of another pod it is none": ("[rank0]: ValueError: x", 2, None),
    "nobody says": ("boom", 2, None),
}


@pytest.mark.parametrize(("message", "processes", "rank"), RANKS.values(), ids=RANKS.keys())
def test_the_rank_of_a_script(message: str, processes: int, rank: int | None) -> None:
    found = verdict(pod(0), failed(1, 1, message=message, processes=processes))
    assert isinstance(found, Verdict)
    assert found.rank == rank
