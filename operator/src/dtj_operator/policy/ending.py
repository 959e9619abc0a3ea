"""The end of a job: its verdict as conditions. Pure."""

from dtj_api.status import ConditionType, JobStatus

from dtj_operator.policy.decision import Decision, End, Finding
from dtj_operator.snapshot import World
from dtj_operator.workqueue import NOW

_ON_THE_WAY: tuple[ConditionType, ...] = ("Restarting", "Suspended", "Stalled")


def failed(world: World, end: End, reason: str, message: str) -> Decision:
    return Decision(
        phase="Failed",
        end=end,
        findings=(
            Finding("Running", "False", "JobFailed", "the job is over"),
            *_settled(world.job.status, "JobFailed"),
            Finding("Failed", "True", reason, message),
        ),
        next_look=NOW,
    )


def succeeded(world: World, reason: str, message: str) -> Decision:
    return Decision(
        phase="Succeeded",
        end=End(reason, message),
        findings=(
            Finding("Running", "False", "JobSucceeded", "the job is over"),
            *_settled(world.job.status, "JobSucceeded"),
            Finding("Succeeded", "True", reason, message),
        ),
        next_look=NOW,
    )


def _settled(status: JobStatus, reason: str) -> list[Finding]:
    """What no longer holds of a job that is over."""
    return [Finding(kind, "False", reason, "the job is over") for kind in _ON_THE_WAY if status.is_true(kind)]
