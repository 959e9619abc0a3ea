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

from dtj_operator.policy import evidence, remedies
from dtj_operator.snapshot import Pod


class Strength(IntEnum):
    """How sure it is that a worker failed by itself."""

    CAUSE = 0
    POSSIBLE = 1
    SYMPTOM = 2


@dataclass(frozen=True)
class Verdict:
    """The first cause. `message` names worker, pod, node, exit code, last words and the next action."""

    reason: str
    message: str


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


# Exit codes with which the built-in trainer says that another rank was lost, or told it to stop.
_SYMPTOMS = frozenset({ExitCode.PEER_LOST})
_WEAK = frozenset({ExitCode.RENDEZVOUS_FAILED, ExitCode.STOPPED})


def judge(
    pods: Mapping[int, Pod], workers: Iterable[int], now: datetime, settle_seconds: float
) -> Verdict | Settling | None:
    """The verdict on a gang of which `workers` should be there.

    Returns:
        None while nothing has failed.
    """
    suspects = list(_suspects(pods, workers, now, settle_seconds))
    vanishing = [wait for pod in pods.values() if (wait := _until_overdue(pod, now, settle_seconds)) is not None]
    if not suspects:
        return Settling(min(vanishing)) if vanishing else None
    culprit = _culprit(suspects, settle_seconds)
    patience = _patience(suspects, now, settle_seconds)
    if culprit.strength is not Strength.CAUSE and patience > 0 and _others_may_tell(pods, suspects):
        return Settling(patience)
    return Verdict(culprit.reason, f"{culprit.story}; {remedies.remedy(culprit.reason, culprit.pod)}")


def _culprit(suspects: list[_Suspect], settle_seconds: float) -> _Suspect:
    """The surest of those that ended about when the first of them did."""
    ranked = [s for s in suspects if s.strength is not Strength.SYMPTOM] or suspects
    first = min((s.time for s in ranked if s.time), default=None)
    window = timedelta(seconds=settle_seconds)
    early = [s for s in ranked if first is None or s.time is None or s.time - first <= window]
    return min(early, key=lambda s: (s.strength, s.time.timestamp() if s.time else 0.0, s.worker))


def _patience(suspects: list[_Suspect], now: datetime, settle_seconds: float) -> float:
    """Seconds to wait for more evidence; none where a node's clock is so far off that its times say nothing."""
    # the nodes' times, not the pods' own: a supervisor that waits for its other ranks ends long after its record
    ends = [end.finished_at for s in suspects if s.pod and (end := evidence.failing_end(s.pod)) and end.finished_at]
    first = min(ends, default=None)
    left = (first - now).total_seconds() + settle_seconds if first else 0.0
    return left if left <= 2 * settle_seconds else 0.0


def _others_may_tell(pods: Mapping[int, Pod], suspects: list[_Suspect]) -> bool:
    failed = {suspect.worker for suspect in suspects}
    return any(not pod.succeeded for worker, pod in pods.items() if worker not in failed)


def _until_overdue(pod: Pod, now: datetime, settle_seconds: float) -> float | None:
    """Seconds until a deleted pod should be gone; 0 or less when its node no longer answers for it."""
    if pod.deletion_due is None or pod.succeeded or pod.failed:
        return None
    return (pod.deletion_due - now).total_seconds() + settle_seconds


def _suspects(
    pods: Mapping[int, Pod], workers: Iterable[int], now: datetime, settle_seconds: float
) -> Iterator[_Suspect]:
    for worker in workers:
        pod = pods.get(worker)
        if pod is None:
            story = f"worker {worker}'s pod was deleted"
            yield _Suspect(worker, Strength.CAUSE, None, "PodDeleted", story)
        elif pod.failed:
            yield _failed(pod)
        elif (overdue := _until_overdue(pod, now, settle_seconds)) is not None and overdue <= 0:
            reason = evidence.deletion_reason(pod)
            story = f"{evidence.title(pod)} was deleted ({reason}) and its node has not confirmed its end"
            yield _Suspect(worker, Strength.CAUSE, pod.deletion_due, reason, story, pod)
        elif (hopeless := evidence.hopeless(pod)) is not None:
            story = f"{evidence.title(pod)} cannot start: {hopeless.message or hopeless.reason}"
            yield _Suspect(worker, Strength.CAUSE, None, hopeless.reason, story, pod)


def _failed(pod: Pod) -> _Suspect:
    """A pod that ended with a failure, by the first of: its node's word, its own record, its exit code."""
    end = evidence.failing_end(pod)
    time = end.finished_at if end else None
    if pod.deletion_due is not None or pod.disruption:
        reason = evidence.deletion_reason(pod)
        story = f"{evidence.title(pod)} was deleted ({reason})" + (
            f" and {evidence.exit_story(pod, end)}" if end else ""
        )
        return _Suspect(pod.worker, Strength.CAUSE, time, reason, story, pod)
    if pod.reason:
        reason = evidence.camel_case(pod.reason)
        story = f"{evidence.title(pod)} was ended by its node ({pod.reason}): {evidence.tidy(pod.message)}"
        return _Suspect(pod.worker, Strength.CAUSE, time, reason, story, pod)
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
    if code in _WEAK or (record is None and exit_code < 128 and not pod.built_in):
        # a script of the user's exits alike for its own fault and for a lost peer
        return Strength.POSSIBLE
    return Strength.CAUSE
