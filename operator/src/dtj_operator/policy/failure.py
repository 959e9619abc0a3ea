"""Which worker failed first, why, and what to do about it. Pure.

One worker's death ends the others too, so several pods usually fail together. The verdict names the cause, not its
symptoms: while only symptoms are seen it waits a little, since nodes report up to seconds apart.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from dtj_api.exit_codes import ExitCode
from dtj_api.progress import Failure

from dtj_operator.pods import Node, Pod
from dtj_operator.policy import evidence, remedies


class Strength(IntEnum):
    """How sure it is that a worker failed by itself."""

    CAUSE = 0
    POSSIBLE = 1
    SYMPTOM = 2


@dataclass(frozen=True)
class Verdict:
    """The first cause.

    Attributes:
        story: what happened, naming worker, pod, node, exit code and last words.
        exit_code: of the rank or container that failed first, where one ended.
        disrupted: the cluster did it for reasons of its own: it lost the node, preempted or drained the pod.
        evidence: how the other workers ended, a line each.
    """

    reason: str
    story: str
    time: datetime | None = None
    pod: Pod | None = None
    worker: int | None = None
    rank: int | None = None
    exit_code: int | None = None
    disrupted: bool = False
    evidence: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        return remedies.remedy(self.reason, self.pod)


@dataclass(frozen=True)
class Settling:
    """Something failed; its cause may be reported within so many seconds."""

    seconds: float


@dataclass(frozen=True)
class _Suspect:
    worker: int
    strength: Strength
    time: datetime | None
    reason: str
    story: str
    pod: Pod | None = None
    disrupted: bool = False


@dataclass(frozen=True)
class Patience:
    """How long to wait for what.

    Attributes:
        settle_seconds: for the cause of what may be a symptom.
        lost_node_seconds: for a node that is not ready.
    """

    settle_seconds: float
    lost_node_seconds: float


MOST_EVIDENCE = 8
# Exit codes with which the built-in trainer says that another rank was lost, or told it to stop.
_SYMPTOMS = frozenset({ExitCode.PEER_LOST})
_WEAK = frozenset({ExitCode.RENDEZVOUS_FAILED, ExitCode.STOPPED})


def judge(
    pods: Mapping[int, Pod],
    workers: Iterable[int],
    now: datetime,
    patience: Patience,
    nodes: Mapping[str, Node] | None = None,
) -> Verdict | Settling | None:
    """The verdict on a gang of which `workers` should be there.

    Args:
        nodes: those of pods in doubt, by name.

    Returns:
        None while nothing has failed.
    """
    waits = {pod.worker: _until_lost(pod, nodes or {}, now, patience) for pod in pods.values()}
    suspects = list(_suspects(pods, workers, waits, nodes or {}))
    settle = patience.settle_seconds
    vanishing = [wait for wait in waits.values() if wait is not None]
    if not suspects:
        return Settling(min(vanishing)) if vanishing else None
    culprit = _culprit(suspects, settle)
    left = _until_settled(suspects, now, settle)
    if culprit.strength is not Strength.CAUSE and left > 0 and _others_may_tell(pods, suspects):
        return Settling(left)
    return _verdict(culprit, suspects, now)


def _verdict(culprit: _Suspect, suspects: list[_Suspect], now: datetime) -> Verdict:
    pod = culprit.pod
    end = evidence.failing_end(pod) if pod else None
    record = evidence.failure_record(end) if end else None
    others = [suspect.story for suspect in suspects if suspect is not culprit]
    return Verdict(
        reason=culprit.reason,
        story=culprit.story,
        time=culprit.time or now,
        pod=pod,
        worker=culprit.worker,
        rank=evidence.first_rank(pod, end) if pod and end else None,
        exit_code=record.exit_code if record else end.exit_code if end else None,
        disrupted=culprit.disrupted,
        evidence=tuple(others[:MOST_EVIDENCE]),
    )


def _culprit(suspects: list[_Suspect], settle_seconds: float) -> _Suspect:
    """The surest of those that ended about when the first of them did."""
    ranked = [s for s in suspects if s.strength is not Strength.SYMPTOM] or suspects
    first = min((s.time for s in ranked if s.time), default=None)
    window = timedelta(seconds=settle_seconds)
    early = [s for s in ranked if first is None or s.time is None or s.time - first <= window]
    return min(early, key=lambda s: (s.strength, s.time.timestamp() if s.time else 0.0, s.worker))


def _until_settled(suspects: list[_Suspect], now: datetime, settle_seconds: float) -> float:
    """Seconds to wait for more evidence; none where a node's clock is so far off that its times say nothing."""
    # the nodes' times, not the pods' own: a supervisor that waits for its other ranks ends long after its record
    ends = [end.finished_at for s in suspects if s.pod and (end := evidence.failing_end(s.pod)) and end.finished_at]
    first = min(ends, default=None)
    left = (first - now).total_seconds() + settle_seconds if first else 0.0
    return left if left <= 2 * settle_seconds else 0.0


def _others_may_tell(pods: Mapping[int, Pod], suspects: list[_Suspect]) -> bool:
    failed = {suspect.worker for suspect in suspects}
    return any(not pod.succeeded for worker, pod in pods.items() if worker not in failed)


def _until_lost(pod: Pod, nodes: Mapping[str, Node], now: datetime, patience: Patience) -> float | None:
    """Seconds until a pod that its node does not answer for is given up, 0 or less when it is; None for any other."""
    if pod.ended or pod.failed:
        return None
    waits = []
    if pod.deletion_due is not None:
        waits.append((pod.deletion_due - now).total_seconds() + patience.settle_seconds)
    node = nodes.get(pod.node or "")
    if node is not None and node.gone:
        waits.append(0.0)
    if node is not None and node.unready_since is not None:
        waits.append((node.unready_since - now).total_seconds() + patience.lost_node_seconds)
    return min(waits, default=None)


def _suspects(
    pods: Mapping[int, Pod], workers: Iterable[int], waits: Mapping[int, float | None], nodes: Mapping[str, Node]
) -> Iterator[_Suspect]:
    for worker in workers:
        pod = pods.get(worker)
        wait = waits.get(worker)
        if pod is None:
            story = f"worker {worker}'s pod was deleted"
            yield _Suspect(worker, Strength.CAUSE, None, "PodDeleted", story)
        elif pod.failed:
            yield _failed(pod)
        elif wait is not None and wait <= 0:
            yield _lost(pod, nodes.get(pod.node or ""))
        elif (hopeless := evidence.hopeless(pod)) is not None:
            story = f"{evidence.title(pod)} cannot start: {hopeless.message or hopeless.reason}"
            yield _Suspect(worker, Strength.CAUSE, None, hopeless.reason, story, pod)


def _lost(pod: Pod, node: Node | None) -> _Suspect:
    if pod.deletion_due is None:
        gone = node is not None and node.gone
        story = f"{evidence.title(pod)} is lost: its node {'is gone' if gone else 'is not ready'}"
        since = node.unready_since if node else None
        return _Suspect(pod.worker, Strength.CAUSE, since, "NodeLost", story, pod, disrupted=True)
    reason = evidence.deletion_reason(pod)
    story = f"{evidence.title(pod)} was deleted ({reason}) and its node has not confirmed its end"
    return _Suspect(pod.worker, Strength.CAUSE, pod.deletion_due, reason, story, pod, disrupted=_disrupted(pod, reason))


def _disrupted(pod: Pod, reason: str) -> bool:
    """The kubelet's own evictions are not meant: a pod that uses too much of its node would do so again."""
    return bool(pod.disruption) and reason != "Evicted"


def _failed(pod: Pod) -> _Suspect:
    """A pod that ended with a failure, by the first of: its node's word, its own record, its exit code."""
    end = evidence.failing_end(pod)
    time = end.finished_at if end else None
    if pod.reason:
        reason = "NodeShutdown" if pod.reason in evidence.SHUTDOWN else evidence.camel_case(pod.reason)
        story = f"{evidence.title(pod)} was ended by its node ({pod.reason}): {evidence.tidy(pod.message)}"
        return _Suspect(pod.worker, Strength.CAUSE, time, reason, story, pod, disrupted=_disrupted(pod, reason))
    if pod.deletion_due is not None or pod.disruption:
        reason = evidence.deletion_reason(pod)
        story = f"{evidence.title(pod)} was deleted ({reason})" + (
            f" and {evidence.exit_story(pod, end)}" if end else ""
        )
        return _Suspect(pod.worker, Strength.CAUSE, time, reason, story, pod, disrupted=_disrupted(pod, reason))
    if end is None:
        words = evidence.tidy(pod.message)
        return _Suspect(pod.worker, Strength.CAUSE, None, "PodFailed", f"{evidence.title(pod)} failed: {words}", pod)
    record = evidence.failure_record(end)
    story = f"{evidence.title(pod)} {evidence.exit_story(pod, end)}"
    time = evidence.record_time(record) or time
    return _Suspect(
        pod.worker, _strength(pod, end.exit_code, record), time, evidence.reason(pod, end, record), story, pod
    )


def _strength(pod: Pod, exit_code: int, record: Failure | None) -> Strength:
    code = record.exit_code if record else exit_code
    if code in _SYMPTOMS or exit_code in _SYMPTOMS:
        return Strength.SYMPTOM
    if pod.end is not None and pod.end.reason == "OOMKilled":
        return Strength.CAUSE
    if pod.end is not None and evidence.blames_a_peer(pod.end):
        return Strength.SYMPTOM
    if code in _WEAK or (record is None and exit_code < 128 and not pod.built_in):
        # a script of the user's exits alike for its own fault and for a lost peer
        return Strength.POSSIBLE
    return Strength.CAUSE
