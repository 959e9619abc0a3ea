"""Stopping a job that is to be kept, and going on with it. Pure.

The pods are deleted and waited for, unlike those of a failed attempt: the trainer saves a checkpoint when it is told to
stop, and the next attempt is to find it.
"""

from datetime import datetime, timedelta

from dtj_api.fields import InvalidFields
from dtj_api.spec import JobSpec

from dtj_operator.pods import Pod
from dtj_operator.policy.decision import Decision, End, Finding, soonest
from dtj_operator.policy.refusal import told
from dtj_operator.snapshot import World


def is_suspending(world: World) -> bool:
    """Whether the job was being suspended, or is: then it must be begun anew."""
    condition = world.job.status.condition("Suspended")
    return condition is not None and (condition.status == "True" or condition.reason == "Suspending")


def suspend(world: World, spec: JobSpec | InvalidFields, now: datetime) -> Decision:
    """Bring the job to where no pod of it is left, and say so."""
    lost_node_seconds = spec.health.lost_node_seconds if isinstance(spec, JobSpec) else 0
    waits = [_until_given_up(pod, now, lost_node_seconds) for pod in world.all_pods]
    remaining = [wait for wait in waits if wait > 0]
    end = _end(world)
    if remaining:
        message = "the workers are stopped; the built-in trainer saves a checkpoint first"
        return Decision(
            phase="Suspended",
            end=end,
            findings=(
                Finding("Suspended", "False", "Suspending", message),
                Finding("Running", "False", "Suspended", "the job is being suspended"),
            ),
            remove=tuple(pod for pod in world.all_pods if pod.deletion_due is None),
            next_look=soonest([min(remaining) + 0.1]),
        )
    return Decision(
        phase="Suspended",
        end=end,
        findings=(
            _created(spec),
            Finding("Running", "False", "Suspended", "the job is suspended"),
            *_no_longer(world),
            Finding("Suspended", "True", "Suspended", "no pod is left; set spec.suspend to false to go on"),
        ),
        remove=tuple(pod for pod in world.all_pods if pod.deletion_due is None),
        discard=tuple(child for child in world.children if child.attempt is not None),
    )


def _created(spec: JobSpec | InvalidFields) -> Finding:
    """A suspended job may be edited: its faults are told before it goes on."""
    if isinstance(spec, InvalidFields):
        return Finding("Created", "False", "InvalidSpec", told(spec.errors))
    return Finding("Created", "False", "Suspended", "nothing is created while spec.suspend is true")


def _no_longer(world: World) -> list[Finding]:
    status = world.job.status
    found = []
    if status.is_true("Restarting"):
        found.append(Finding("Restarting", "False", "Suspended", "the job is suspended"))
    if status.is_true("Stalled"):
        found.append(Finding("Stalled", "False", "Suspended", "the job is suspended"))
    return found


def _end(world: World) -> End | None:
    attempts = world.job.status.attempts
    if not attempts or attempts[-1].end_time is not None:
        return None
    return End("Suspended", "spec.suspend was set")


def _until_given_up(pod: Pod, now: datetime, lost_node_seconds: float) -> float:
    """Seconds that a pod may still take to go; a lost node does not hold a job for ever."""
    if pod.deletion_due is None:
        return lost_node_seconds  # it is deleted now
    return (pod.deletion_due + timedelta(seconds=lost_node_seconds) - now).total_seconds()
