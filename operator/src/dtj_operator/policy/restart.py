"""What follows a failed attempt: another one, after a pause that grows, or the end of the job. Pure."""

from datetime import datetime, timedelta

from dtj_api.spec import JobSpec, Restart
from dtj_api.status import JobStatus, LastFailure
from dtj_api.validation import mesh, world_size

from dtj_operator.pods import parse_time
from dtj_operator.policy import rules
from dtj_operator.policy.decision import Begin, Decision, End, Finding
from dtj_operator.policy.ending import failed
from dtj_operator.policy.failure import Verdict
from dtj_operator.snapshot import World
from dtj_operator.times import duration, precise
from dtj_operator.workqueue import NOW

LONGEST_BACKOFF = 300.0


def follow_up(world: World, spec: JobSpec, verdict: Verdict, now: datetime, *, final: bool = False) -> Decision:
    """What a failure leads to. With `final` the job ends whatever its restart policy says, unless a rule matches."""
    rule = rules.first_match(spec.failure_rules, verdict, world.nodes)
    default = "FailJob" if final else rules.default_action(spec.restart, verdict)
    action = rule.action if rule else default
    story = f"{verdict.story} ({rule.message})" if rule and rule.message else verdict.story
    end = End(verdict.reason, story, last_failure(world, verdict, story, now))
    if action == "FailJob":
        return failed(world, end, verdict.reason, f"{story}; {verdict.remedy}")
    counted = action == "RestartJob"
    recent = _recent(world, spec.restart, now)
    if counted and len(recent) >= spec.restart.max_restarts:
        return _exhausted(world, spec.restart, end, verdict)
    if counted:
        recent = (*recent, precise(now))
    return _restart(world, spec, end, recent, counted=counted)


def _restart(world: World, spec: JobSpec, end: End, recent: tuple[str, ...], *, counted: bool) -> Decision:
    attempt = world.job.attempt + 1
    pause = backoff(spec.restart, len(recent) if counted else 1)
    when = f"starts in {duration(pause)}" if pause else "starts"
    number = f"restart {len(recent)} of {spec.restart.max_restarts} without progress" if counted else "not counted"
    message = f"attempt {world.job.attempt} failed: {end.message}; attempt {attempt} {when} ({number})"
    stalled = world.job.status.is_true("Stalled")
    return Decision(
        phase="Restarting",
        end=end,
        begin=Begin(attempt, spec.workers, world_size(spec), mesh(spec), resets_start=False),
        recent_restarts=recent,
        findings=(
            Finding("Created", "False", "Creating", f"creating the service and {spec.workers} worker pods"),
            Finding("Running", "False", "Restarting", f"attempt {attempt} does not run yet"),
            Finding("Restarting", "True", end.reason, message),
            *((Finding("Stalled", "False", "Restarting", "the gang is started anew"),) if stalled else ()),
        ),
        next_look=NOW,
    )


def _exhausted(world: World, restart: Restart, end: End, verdict: Verdict) -> Decision:
    if restart.max_restarts == 0:
        return failed(world, end, verdict.reason, f"{end.message}; {verdict.remedy}")
    times = f"{restart.max_restarts} restarts" if restart.max_restarts > 1 else "1 restart"
    message = f"failed again after {times} without progress (spec.restart.maxRestarts): {end.message}; {verdict.remedy}"
    return failed(world, end, "MaxRestartsReached", message)


def last_failure(world: World, verdict: Verdict, story: str, now: datetime) -> LastFailure:
    return LastFailure(
        attempt=world.job.attempt,
        reason=verdict.reason,
        message=story,
        time=precise(verdict.time or now),
        rank=verdict.rank,
        worker=verdict.worker,
        node=verdict.pod.node if verdict.pod else None,
        exit_code=verdict.exit_code,
        evidence=verdict.evidence,
    )


def backoff(restart: Restart, number: int) -> float:
    """Seconds before the restart of that number, counted from 1 since the last progress."""
    return min(restart.backoff_seconds * 2.0 ** min(number - 1, 30), LONGEST_BACKOFF)


def until_due(status: JobStatus, restart: Restart, now: datetime) -> float:
    """Seconds until the attempt at hand may be created; 0 or less when it may."""
    begun = parse_time(status.attempts[-1].start_time) if status.attempts else None
    if begun is None or not status.is_true("Restarting"):
        return 0.0
    counted = status.attempts[-1].start_time in status.recent_restarts
    pause = backoff(restart, len(status.recent_restarts) if counted else 1)
    return (begun + timedelta(seconds=pause) - now).total_seconds()


def _recent(world: World, restart: Restart, now: datetime) -> tuple[str, ...]:
    """The restarts that count: within the window, and since the run last got further than any attempt before."""
    if _progressed(world):
        return ()
    begin = now - timedelta(seconds=restart.window_seconds)
    times = ((text, parse_time(text)) for text in world.job.status.recent_restarts)
    return tuple(text for text, time in times if time is not None and time > begin)


def _progressed(world: World) -> bool:
    """Whether the attempt got further than those before it: in saved steps where any are saved, else in steps done.
    What is not saved is done again, so it counts only where nothing ever is."""
    before = world.job.status.attempts[:-1]
    step, checkpoint = furthest(world)
    if checkpoint is not None:
        return checkpoint > max((one.checkpoint_step or 0 for one in before), default=0)
    return step is not None and step > max((one.step or 0 for one in before), default=0)


def furthest(world: World) -> tuple[int | None, int | None]:
    """Steps done, and step of the newest checkpoint, by the newest word on them."""
    status, latest = world.job.status, world.progress
    progress = latest or status.progress
    checkpoint = (latest.checkpoint if latest else None) or status.checkpoint
    return progress.step if progress else None, checkpoint.step if checkpoint else None
