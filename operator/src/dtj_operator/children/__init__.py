"""Pure: a job -> the objects it should have."""

from collections.abc import Iterable

from dtj_operator.children import claim, pod, service
from dtj_operator.children.blueprint import Blueprint, Object

__all__ = ["Blueprint", "Object", "pods", "prerequisites"]


def prerequisites(blueprint: Blueprint) -> list[Object]:
    """What must be there before the pods, in order."""
    volume_claim = claim.build(blueprint)
    return ([volume_claim] if volume_claim else []) + [service.build(blueprint)]


def pods(blueprint: Blueprint, workers: Iterable[int]) -> list[Object]:
    """The pods of these workers."""
    return [pod.build(blueprint, worker) for worker in workers]
