"""From a new job to a finished one: which policy has the word. Pure.

Whatever must not happen twice is written to the status before it is done: the attempt before its pods are made, the
verdict before pods are stopped. So an operator killed between any two writes goes on where it was.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dtj_api import names
from dtj_api.fields import InvalidFields
from dtj_api.spec import JobSpec

from dtj_operator import specs
from dtj_operator.pods import parse_time
from dtj_operator.policy import cleanup, restart, running, setup, suspension
from dtj_operator.policy.admission import examine_job
from dtj_operator.policy.decision import Decision, soonest
from dtj_operator.policy.failure import Verdict
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Job, World


def decide(world: World, now: datetime, settings: Settings) -> Decision:
    """The next step of a job, from any state it may be in."""
    if managed_elsewhere(world.job):
        return Decision(hands_off=True)
    if world.job.status.finished:
        return cleanup.finished(world, now)
    spec = _spec(world.job, settings)
    if isinstance(world.job.spec, Mapping) and world.job.spec.get("suspend") is True:
        return suspension.suspend(world, spec, now)
    if suspension.is_suspending(world):
        return _resume(world, spec, now, settings)
    if isinstance(spec, InvalidFields):
        return _go_on_without_spec(world, now, settings)
    left = _until_deadline(world, spec, now)
    if left is not None and left <= 0:
        return _too_late(world, spec, now)
    return _look_by(left, _go_on(world, spec, now, settings))


def managed_elsewhere(job: Job) -> bool:
    """`spec.managedBy` names another controller: hands off, completely."""
    manager = job.spec.get("managedBy") if isinstance(job.spec, Mapping) else None
    return manager not in (None, names.MANAGER)


def _go_on(world: World, spec: JobSpec, now: datetime, settings: Settings) -> Decision:
    if world.job.status.attempt is None:
        return setup.accept(world, spec, settings)
    if world.job.status.is_true("Created"):
        return running.follow(world, spec, now, settings)
    still_creating = setup.create(world, spec, now, settings)
    return still_creating or setup.created(world, spec, running.follow(world, spec, now, settings))


def _go_on_without_spec(world: World, now: datetime, settings: Settings) -> Decision:
    """What runs is not stopped because an operator with other rules, or a narrower `allow`, looks at it now."""
    status = world.job.status
    if not status.is_true("Created") or status.workers is None:
        return setup.invalid(world, examine_job(world, settings))
    return running.follow(world, JobSpec(workers=status.workers.desired), now, settings)


def _spec(job: Job, settings: Settings) -> JobSpec | InvalidFields:
    try:
        return specs.load(job.spec, settings.allow)
    except InvalidFields as error:
        return error


def _resume(world: World, spec: JobSpec | InvalidFields, now: datetime, settings: Settings) -> Decision:
    """What a suspension has begun is ended first: the next attempt is to find what this one saves."""
    if not world.job.status.is_true("Suspended"):
        return suspension.suspend(world, spec, now)
    if isinstance(spec, InvalidFields):
        return setup.invalid(world, examine_job(world, settings))
    return setup.accept(world, spec, settings)


def _until_deadline(world: World, spec: JobSpec, now: datetime) -> float | None:
    begun = parse_time(world.job.status.start_time)
    if spec.active_deadline_seconds is None or begun is None:
        return None
    return (begun + timedelta(seconds=spec.active_deadline_seconds) - now).total_seconds()


def _too_late(world: World, spec: JobSpec, now: datetime) -> Decision:
    """Nothing gives a job more time: neither its rules nor its restart policy are asked."""
    story = f"the job was active for longer than spec.activeDeadlineSeconds, {spec.active_deadline_seconds} s"
    verdict = Verdict("DeadlineExceeded", story, time=now)
    unruled = replace(spec, failure_rules=())
    return restart.follow_up(world, unruled, verdict, now, final=True)


def _look_by(seconds: float | None, decision: Decision) -> Decision:
    if seconds is None or decision.next_look.backoff or decision.finishes:
        return decision
    return replace(decision, next_look=soonest([seconds, decision.next_look.after]))
