"""Pure: a job -> the objects it should have."""

from collections.abc import Iterable

from dtj_operator.children import claim, network_policy, pod, pod_monitor, service
from dtj_operator.children.blueprint import Blueprint, Object

__all__ = ["Blueprint", "Object", "pods", "prerequisites", "rehearsal"]


def prerequisites(blueprint: Blueprint) -> list[Object]:
    """What must be there before the pods, in order."""
    builders = (claim.build, network_policy.build, service.build, pod_monitor.build)
    return [built for build in builders if (built := build(blueprint)) is not None]


def pods(blueprint: Blueprint, workers: Iterable[int]) -> list[Object]:
    """The pods of these workers."""
    return [pod.build(blueprint, worker) for worker in workers]


def rehearsal(blueprint: Blueprint) -> list[Object]:
    """What holds words of the user's, one of each: each rehearsal is a call for every job there is. Of two workers that
    differ in their volumes both."""
    chief, *others = pods(blueprint, range(min(blueprint.spec.workers, 2)))
    own = [built for build in (claim.build, pod_monitor.build) if (built := build(blueprint)) is not None]
    differing = [other for other in others if other["spec"].get("volumes") != chief["spec"].get("volumes")]
    return [*own, chief, *differing]
