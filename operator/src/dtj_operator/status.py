"""Pure: snapshot + decision -> status, and the smallest patch that makes it so."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dtj_api.progress import Progress
from dtj_api.status import Condition, JobStatus, StatusProgress, Workers, encode_status

from dtj_operator.policy.decision import Decision, Finding
from dtj_operator.snapshot import World


def report(world: World, decision: Decision, now: datetime) -> JobStatus:
    """The status that `decision` makes of the job's."""
    old = world.job.status
    status = replace(old, observed_generation=world.job.generation, phase=decision.phase or old.phase)
    if decision.accept is not None:
        gang = decision.accept
        status = replace(
            status,
            attempt=world.job.attempt,
            world_size=gang.world_size,
            workers=Workers(gang.workers),
            start_time=old.start_time or timestamp(now),
        )
    if not old.finished and status.workers is not None:
        status = replace(status, workers=_count(world, status.workers.desired, ending=_ends(decision)))
    for finding in decision.findings:
        status = _with_condition(status, finding, now, world.job.generation)
    status = _with_progress(status, world.progress)
    if _ends(decision):
        status = replace(_without_time_left(status), completion_time=timestamp(now))
    return status


def merge_patch(old: Mapping[str, Any], status: JobStatus) -> dict[str, Any]:
    """What turns `old` (raw) into `status` by RFC 7386; {} when nothing changed."""
    return _difference(old, encode_status(status))


def timestamp(time: datetime) -> str:
    """RFC 3339, UTC, whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """For people.

    >>> duration(80), duration(5), duration(7260), duration(200000)
    ('1m20s', '5s', '2h1m', '2d7h')
    """
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour}h"
    if hours:
        return f"{hours}h{minute}m"
    return f"{minutes}m{second}s" if minutes else f"{second}s"


def _ends(decision: Decision) -> bool:
    return decision.phase in ("Succeeded", "Failed")


def _count(world: World, desired: int, *, ending: bool) -> Workers:
    """With the verdict the rest of the gang is stopped: counted as such at once, the status is then left alone."""
    pods = world.pods.values()
    ready = 0 if ending else sum(pod.trainer_ready for pod in pods)
    return Workers(
        desired=desired,
        active=0 if ending else sum(not pod.failed and not pod.ended for pod in pods),
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
        eta_seconds=None if left is None else math.ceil(left),
        eta=None if left is None else duration(left),
        last_step_time=progress.last_step_time,
    )
    status = replace(
        status,
        progress=shown,
        checkpoint=progress.checkpoint or status.checkpoint,
        first_step_time=status.first_step_time or progress.first_step_time,
    )
    return _without_time_left(status) if status.phase in ("Succeeded", "Failed") else status


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
