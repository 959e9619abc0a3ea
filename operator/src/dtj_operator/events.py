"""Kubernetes Events for transitions of a job: what happened, and what a person does next. Pure."""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from dtj_api import names
from dtj_api.status import Condition, JobStatus

from dtj_operator.snapshot import Job
from dtj_operator.times import timestamp

# A longer note is refused: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
MESSAGE_LIMIT = 1024


def of_transition(job: Job, new: JobStatus, now: datetime) -> Iterator[dict[str, Any]]:
    """Events that the change from the job's status to `new` is worth. Told again, they have the same names."""
    for condition in new.conditions:
        old = job.status.condition(condition.type)
        told = old is not None and (old.status, old.reason) == (condition.status, condition.reason)
        # a second failure before the gang ran again is another one
        again = condition.type == "Restarting" and condition.status == "True" and new.attempt != job.status.attempt
        # that it runs says that it was created
        implied = condition.reason == "GangCreated" and new.is_true("Running")
        if (again or not told) and not implied and _worth_telling(condition):
            yield _event(job, condition, new.attempt, now)


def _worth_telling(condition: Condition) -> bool:
    """Everything but the quiet steps on the way."""
    quiet = {"Creating", "NotCreated", "Starting", "JobSucceeded", "JobFailed"}
    # what the condition Suspended or Restarting tells already
    followers = {("Created", "Suspended"), ("Running", "Suspended"), ("Running", "Restarting")}
    return condition.reason not in quiet and (condition.type, condition.reason) not in followers


def _event(job: Job, condition: Condition, attempt: int | None, now: datetime) -> dict[str, Any]:
    bad = {"Failed", "Restarting", "Stalled"}
    fine = (condition.status == "True") != (condition.type in bad) or condition.type == "Suspended"
    message = f"{condition.message}{_next_action(job, condition)}"
    identity = "|".join(
        [job.uid, str(attempt), condition.type, condition.status, condition.reason, condition.last_transition_time]
    )
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{job.name}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
            "namespace": job.namespace,
        },
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
        },
        "type": "Normal" if fine or condition.reason == "WaitingForRemoval" else "Warning",
        "reason": _reason(condition),
        "message": message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 4] + " ...",
        "source": {"component": names.MANAGED_BY},
        "reportingComponent": names.MANAGED_BY,
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }


def _reason(condition: Condition) -> str:
    """A restart begins and ends under names that belong together; what it was for is in its message."""
    begins = condition.type == "Restarting" and condition.status == "True"
    return "Restarting" if begins else condition.reason


def _next_action(job: Job, condition: Condition) -> str:
    """What the message of the condition does not say itself."""
    if condition.status != "True":
        return ""
    actions = {
        "Created": f"; watch them start: kubectl get pods -l {names.LABEL_JOB}={job.name} -w",
        "Running": f"; follow it: kubectl get dtj {job.name} -w",
        "Restarting": f"; see what failed: kubectl get dtj {job.name} -o jsonpath='{{.status.lastFailure}}'",
        "Succeeded": f"; its logs stay until you delete it: kubectl delete dtj {job.name}",
    }
    return actions.get(condition.type, "")
