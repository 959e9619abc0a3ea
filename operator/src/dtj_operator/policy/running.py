"""A gang that exists, until it ends: is it running, has it failed, has it succeeded. Pure."""

from datetime import datetime

from dtj_api.spec import JobSpec

from dtj_operator import children
from dtj_operator.policy import cleanup, failure, restart, startup
from dtj_operator.policy.admission import blueprint
from dtj_operator.policy.decision import Decision, Finding, soonest
from dtj_operator.policy.ending import succeeded
from dtj_operator.policy.setup import starting
from dtj_operator.settings import Settings
from dtj_operator.snapshot import World


def follow(world: World, spec: JobSpec, now: datetime, settings: Settings) -> Decision:
    """The next step of a gang all of whose pods have been made."""
    workers = world.job.status.workers
    desired = workers.desired if workers else len(world.pods)
    if (success := _success(world, spec, desired)) is not None:
        return success
    patience = failure.Patience(settings.settle_seconds, spec.health.lost_node_seconds)
    verdict = failure.judge(world.pods, range(desired), now, patience, world.nodes)
    if isinstance(verdict, failure.Verdict):
        return restart.follow_up(world, spec, verdict, now)
    left = startup.seconds_left(world, spec.health, now)
    if left is not None and left <= 0 and spec.health.action != "Report":
        over = startup.verdict(world, spec.health, now)
        return restart.follow_up(world, spec, over, now, final=spec.health.action == "Fail")
    running, findings = _state(world, spec, desired, now, late=left is not None and left <= 0)
    return Decision(
        phase="Running" if running else "Pending",
        findings=findings,
        repair=_lost_children(world, spec, settings),
        remove=cleanup.stale_pods(world),
        discard=cleanup.stale_children(world),
        next_look=soonest(
            [
                verdict.seconds if isinstance(verdict, failure.Settling) else None,
                left if left and left > 0 else None,
                # a node that died under a starting pod says nothing
                None if running else spec.health.lost_node_seconds,
            ]
        ),
    )


def _success(world: World, spec: JobSpec, desired: int) -> Decision | None:
    if spec.success.policy == "Chief":
        if 0 in world.pods and world.pods[0].succeeded:
            return succeeded(world, "ChiefSucceeded", "worker 0 ended with success (spec.success.policy: Chief)")
    elif desired and sum(pod.succeeded for pod in world.pods.values()) >= desired:
        return succeeded(world, "AllWorkersSucceeded", f"all {desired} workers ended with success")
    return None


def _state(world: World, spec: JobSpec, desired: int, now: datetime, *, late: bool) -> tuple[bool, tuple[Finding, ...]]:
    """Whether the gang runs, and what changes with that."""
    status = world.job.status
    if status.is_true("Running"):
        return True, ()
    if all(pod.started for pod in world.pods.values()):
        runs = f"attempt {world.job.attempt} runs"
        findings = [Finding("Running", "True", "AllWorkersRunning", f"all {desired} workers run")]
        if status.is_true("Restarting"):
            findings.append(Finding("Restarting", "False", "Restarted", runs))
        if status.is_true("Stalled"):
            findings.append(Finding("Stalled", "False", "Started", runs))
        return True, tuple(findings)
    if late:
        story = startup.verdict(world, spec.health, now).story
        stalled = Finding(
            "Stalled", "True", "StartupTimeout", f"{story}; spec.health.action is Report: it is left alone"
        )
        return False, (starting(world), stalled)
    return False, (starting(world),)


def _lost_children(world: World, spec: JobSpec, settings: Settings) -> tuple[children.Object, ...]:
    """Unlike a pod, a service or a network policy can be made again without harm."""
    if spec.template is None and spec.training is None:
        return ()  # stands for a spec that cannot be read
    plan = blueprint(world, spec, settings, world.job.attempt)
    wanted = (child for child in children.prerequisites(plan) if child["kind"] in ("Service", "NetworkPolicy"))
    return tuple(child for child in wanted if not world.has(child))
