"""How long a gang may take to start, counted from when all its workers have a node. Pure."""

from datetime import datetime, timedelta

from dtj_api.spec import Health

from dtj_operator.policy import evidence, placement
from dtj_operator.policy.failure import Verdict
from dtj_operator.snapshot import World
from dtj_operator.times import duration


def seconds_left(world: World, health: Health, now: datetime) -> float | None:
    """Until the time is over, 0 or less when it is; None while workers wait for a node, or once all have started."""
    pods = world.pods.values()
    placed = [pod.placed_at for pod in pods]
    if all(pod.started for pod in pods) or None in placed:
        return None
    last = max(time for time in placed if time is not None)
    return (last + timedelta(seconds=health.startup_timeout_seconds) - now).total_seconds()


def verdict(world: World, health: Health, now: datetime) -> Verdict:
    """On a gang whose time to start is over: what holds it up, where that is known."""
    pod = min((pod for pod in world.pods.values() if not pod.started), key=lambda pod: pod.worker)
    obstacle = placement.obstacle(world)
    reason = obstacle.reason if obstacle else "StartupTimeout"
    words = obstacle.message.split(";")[0] if obstacle else f"{evidence.title(pod)} does not run yet"
    after = duration(health.startup_timeout_seconds)
    story = f"not all workers run {after} after they were placed (spec.health.startupTimeoutSeconds): {words}"
    return Verdict(reason, story, time=now, pod=pod, worker=pod.worker)
