"""What is deleted, and when: what a finished job leaves, the job itself, and what earlier attempts left. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from dtj_operator.pods import Object, Pod, parse_time
from dtj_operator.policy.decision import Decision, soonest
from dtj_operator.snapshot import Child, World


def finished(world: World, now: datetime) -> Decision:
    """Level-triggered by the finished status alone; the fields are read raw, for the spec may be invalid."""
    spec: Mapping[str, Any] = world.job.spec if isinstance(world.job.spec, Mapping) else {}
    policy = spec.get("cleanPodPolicy") or "Running"
    left = _until_deleted(world, spec.get("ttlSecondsAfterFinished"), now)
    if left is not None and left <= 0:
        return Decision(delete_job=True)
    pods = [] if policy == "None" else [pod for pod in world.pods.values() if policy == "All" or not pod.ended]
    children = [child for child in world.children if child.attempt is not None] if policy == "All" else []
    return Decision(
        remove=not_yet_deleted([*world.stale_pods, *pods]),
        discard=(*children, *(child for child in stale_children(world) if child not in children)),
        next_look=soonest([left]),
    )


def not_yet_deleted(pods: list[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.deletion_due is None)


def stale_pods(world: World) -> tuple[Pod, ...]:
    """Pods of earlier attempts. They are not waited for: nothing of theirs has a name the next attempt needs."""
    return not_yet_deleted(list(world.stale_pods))


def stale_children(world: World) -> tuple[Child, ...]:
    """Services of earlier attempts, at once: their names lead nowhere then. Their network policies stay as long as
    their pods."""
    alive = {pod.attempt for pod in world.stale_pods}
    return tuple(
        child
        for child in world.children
        if child.attempt not in (None, world.job.status.attempt)
        and (child.kind != "NetworkPolicy" or child.attempt not in alive)
    )


def unwanted(world: World, wanted: Iterable[Object]) -> tuple[Child, ...]:
    """What an earlier spec of a suspended job asked for and this one does not; a claim stays, with its data."""
    names = {(child["kind"], child["metadata"]["name"]) for child in wanted}
    outliving = (child for child in world.children if child.attempt is None and child.kind != "PersistentVolumeClaim")
    return tuple(child for child in outliving if (child.kind, child.name) not in names)


def _until_deleted(world: World, ttl: object, now: datetime) -> float | None:
    ended = parse_time(world.job.status.completion_time)
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ended is None:
        return None
    return (ended + timedelta(seconds=ttl) - now).total_seconds()
