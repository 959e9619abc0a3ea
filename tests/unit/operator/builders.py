"""Short forms of observed things, for tables."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dtj_operator.pods import ContainerEnd, Pod
from dtj_operator.settings import Settings

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
SETTINGS = Settings(trainer_image="trainer:1", settle_seconds=3.0, claim_seconds=5.0, progress_seconds=3.0)
SCRIPT = {"spec": {"containers": [{"name": "trainer", "image": "mine:1"}]}}
TRAINING = {
    "model": {"name": "gpt", "size": "tiny"},
    "data": {"text": "tinydocs"},
    "steps": 10,
    "batch": {"perProcess": 2},
}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def end(exit_code: int, seconds_ago: float | None = 10, message: str = "", reason: str = "Error") -> ContainerEnd:
    finished = None if seconds_ago is None else ago(seconds_ago)
    return ContainerEnd("trainer", exit_code, reason, message, finished)


def pod(worker: int, **changes: Any) -> Pod:
    """A running pod of worker `worker`."""
    defaults: dict[str, Any] = {
        "name": f"gpt-0-{worker}",
        "uid": f"uid-{worker}",
        "worker": worker,
        "phase": "Running",
        "node": f"n{worker}",
        "trainer_running": True,
        "trainer_ready": True,
    }
    return Pod(**(defaults | changes))


def failed(worker: int, exit_code: int, seconds_ago: float | None = 10, **changes: Any) -> Pod:
    """A pod whose trainer ended with `exit_code`."""
    message, reason = changes.pop("message", ""), changes.pop("reason_of_end", "Error")
    ended = end(exit_code, seconds_ago, message, reason)
    return pod(
        worker, **({"phase": "Failed", "trainer_running": False, "trainer_ready": False, "end": ended} | changes)
    )


def succeeded(worker: int) -> Pod:
    return pod(worker, phase="Succeeded", trainer_running=False, trainer_ready=False, end=end(0, reason="Completed"))
