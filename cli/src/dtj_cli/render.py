"""A job as one line of text. Pure: the resource in, words out."""

from collections.abc import Mapping
from typing import Any


def line(job: Mapping[str, Any]) -> str:
    """Phase, ready workers, step, loss, speed, time left, newest checkpoint; and what is wrong, if something is.

    >>> line({"metadata": {"name": "gpt"}, "status": {"phase": "Running", "progress": {"step": 5, "totalSteps": 9}}})
    'gpt  Running  step 5/9'
    """
    status = job.get("status") or {}
    progress = status.get("progress") or {}
    words = [job["metadata"]["name"], status.get("phase", "Pending")]
    if summary := (status.get("workers") or {}).get("summary"):
        words.append(f"{summary} ready")
    if "step" in progress:
        words.append(f"step {progress['step']}/{progress['totalSteps']}")
    if "loss" in progress:
        words.append(f"loss {progress['loss']:.4f}")
    if "evalLoss" in progress:
        words.append(f"validation {progress['evalLoss']:.4f}")
    if "tokensPerSecond" in progress:
        words.append(f"{progress['tokensPerSecond']:,.0f} tokens/s")
    if status.get("phase") == "Running" and "eta" in progress:
        words.append(f"eta {progress['eta']}")
    if checkpoint := status.get("checkpoint"):
        words.append(f"checkpoint {checkpoint['step']}")
    if restarts := status.get("restarts"):
        words.append(f"{restarts} restart{'s' if restarts > 1 else ''}")
    if trouble := problem(job):
        words.append(trouble)
    return "  ".join(words)


def problem(job: Mapping[str, Any]) -> str | None:
    """The message of the condition that keeps the job from running, or that ended it; None when all is well."""
    conditions = {c["type"]: c for c in (job.get("status") or {}).get("conditions") or []}
    for kind in ("Failed", "Restarting", "Suspended", "Stalled"):
        if conditions.get(kind, {}).get("status") == "True":
            return str(conditions[kind]["message"])
    if (job.get("status") or {}).get("phase") == "Succeeded":
        return None
    for kind in ("Created", "Running"):
        condition = conditions.get(kind)
        if condition and condition["status"] == "False":
            return str(condition["message"])
    return None


def finished(job: Mapping[str, Any]) -> str | None:
    """`Succeeded` or `Failed` once the job is over; `Invalid` while nothing will happen until its spec is mended."""
    phase = (job.get("status") or {}).get("phase")
    return phase if phase in ("Succeeded", "Failed", "Invalid") else None
