"""Whole worlds for the tables of policies: a job of two workers in a given state."""

from dataclasses import replace
from typing import Any

from dtj_api.spec import JobSpec
from dtj_api.status import Attempt, Condition, ConditionType, JobStatus, Workers, encode_status
from dtj_api.validation import load_job_spec
from dtj_operator.pods import Pod
from dtj_operator.snapshot import Job, World
from dtj_operator.times import precise, timestamp

from tests.unit.operator.builders import SCRIPT, ago

GOOD: dict[str, Any] = {"workers": 2, "template": SCRIPT}


def spec(**fields: Any) -> JobSpec:
    return load_job_spec({**GOOD, **fields})


def status(*true: ConditionType, **fields: Any) -> JobStatus:
    """Of a job whose only attempt was created a minute ago; these conditions are true."""
    conditions = tuple(Condition(kind, "True", kind, "", timestamp(ago(60)), 1) for kind in true)
    status = JobStatus(
        phase="Running",
        attempt=0,
        restarts=0,
        workers=Workers(2),
        start_time=timestamp(ago(60)),
        attempts=(Attempt(0, precise(ago(60))),),
        conditions=conditions,
    )
    return replace(status, **fields)


def world(*pods: Pod, status: JobStatus, **fields: Any) -> World:
    """A job with these pods; `fields` are of its spec."""
    job = Job("ml", "gpt", "uid-1", 1, "1", {**GOOD, **fields}, status, encode_status(status))
    mine = {pod.worker: pod for pod in pods if pod.attempt == job.attempt}
    return World(job, pods=mine, stale_pods=tuple(pod for pod in pods if pod.attempt != job.attempt))
