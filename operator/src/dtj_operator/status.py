"""Pure: snapshot + decision -> status, and the smallest patch that makes it so."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from dtj_api.progress import Progress
from dtj_api.status import Attempt, Condition, JobStatus, StatusProgress, Workers, encode_status

from dtj_operator.policy.decision import Begin, Decision, End, Finding
from dtj_operator.policy.restart import furthest
from dtj_operator.snapshot import World
from dtj_operator.times import duration, precise, timestamp

MOST_ATTEMPTS = 10
# as the CRD has it
LONGEST_MESSAGE = 1024


def report(world: World, decision: Decision, now: datetime) -> JobStatus:
    """The status that `decision` makes of the job's."""
    old = world.job.status
    status = replace(old, observed_generation=world.job.generation, phase=decision.phase or old.phase)
    if not old.finished and status.workers is not None:
        stopped = decision.finishes or decision.phase == "Suspended"
        status = replace(status, workers=_count(world, status.workers.desired, stopped=stopped))
    status = _with_progress(status, world.progress)
    if decision.end is not None:
        status = _end(status, decision.end, world, now)
    if decision.begin is not None:
        status = _begin(status, decision.begin, now)
    if decision.recent_restarts is not None:
        status = replace(status, recent_restarts=decision.recent_restarts)
    for finding in decision.findings:
        status = _with_condition(status, finding, now, world.job.generation)
    if status.phase == "Pending" and status.is_true("Restarting"):
        status = replace(status, phase="Restarting")
    if decision.finishes:
        status = replace(status, completion_time=timestamp(now))
    return _without_time_left(status) if status.phase in ("Succeeded", "Failed", "Suspended") else status


def _begin(status: JobStatus, begin: Begin, now: datetime) -> JobStatus:
    attempts = (*status.attempts, Attempt(begin.attempt, precise(now)))[-MOST_ATTEMPTS:]
    return replace(
        status,
        attempt=begin.attempt,
        attempts=attempts,
        restarts=(status.restarts or 0) + (0 if begin.resets_start else 1),
        workers=Workers(begin.workers, summary=f"0/{begin.workers}"),
        world_size=begin.world_size,
        mesh=begin.mesh,
        start_time=timestamp(now) if begin.resets_start else status.start_time,
        first_step_time=None,
    )


def _end(status: JobStatus, end: End, world: World, now: datetime) -> JobStatus:
    failure = end.failure or status.last_failure
    if not status.attempts:
        return replace(status, last_failure=failure)
    step, checkpoint_step = furthest(world)
    last = replace(
        status.attempts[-1],
        end_time=precise(now),
        reason=end.reason,
        message=_cut(end.message),
        step=step,
        checkpoint_step=checkpoint_step,
    )
    return replace(status, attempts=(*status.attempts[:-1], last), last_failure=failure)


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 4] + " ..."


def merge_patch(old: Mapping[str, Any], status: JobStatus) -> dict[str, Any]:
    """What turns `old` (raw) into `status` by RFC 7386; {} when nothing changed."""
    return _difference(old, encode_status(status))


def _count(world: World, desired: int, *, stopped: bool) -> Workers:
    """With the verdict the rest of the gang is stopped: counted as such at once, the status is then left alone."""
    pods = world.pods.values()
    ready = 0 if stopped else sum(pod.trainer_ready for pod in pods)
    return Workers(
        desired=desired,
        active=0 if stopped else sum(not pod.failed and not pod.ended for pod in pods),
        ready=ready,
        succeeded=sum(pod.succeeded for pod in pods),
        failed=sum(pod.failed for pod in pods),
        summary=f"{ready}/{desired}",
    )


def _with_condition(status: JobStatus, finding: Finding, now: datetime, generation: int) -> JobStatus:
    old = status.condition(finding.kind)
    condition = Condition(
        type=finding.kind,
        status=finding.status,
        reason=finding.reason,
        message=finding.message,
        last_transition_time=old.last_transition_time if old and old.status == finding.status else timestamp(now),
        observed_generation=generation,
    )
    if old is None:
        return replace(status, conditions=(*status.conditions, condition))
    return replace(status, conditions=tuple(condition if c.type == finding.kind else c for c in status.conditions))


def _with_progress(status: JobStatus, progress: Progress | None) -> JobStatus:
    if progress is None:
        return status
    left = progress.eta_seconds
    shown = StatusProgress(
        step=progress.step,
        total_steps=progress.total_steps,
        epoch=progress.epoch,
        loss=_rounded(progress.loss),
        eval_loss=_rounded(progress.eval_loss),
        samples_per_second=_rounded(progress.samples_per_second),
        tokens_per_second=_rounded(progress.tokens_per_second),
        mfu=_rounded(progress.mfu),
        eta_seconds=None if left is None else math.ceil(left),
        eta=None if left is None else duration(left),
        last_step_time=progress.last_step_time,
    )
    return replace(
        status,
        progress=shown,
        checkpoint=progress.checkpoint or status.checkpoint,
        first_step_time=status.first_step_time or progress.first_step_time,
    )


def _without_time_left(status: JobStatus) -> JobStatus:
    if status.progress is None:
        return status
    return replace(status, progress=replace(status.progress, eta=None, eta_seconds=None))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, Mapping):
            inner = _difference(before, value)
            if inner:
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch
