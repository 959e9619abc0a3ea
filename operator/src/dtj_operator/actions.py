"""Carries decisions out: all writes to the cluster but the status. Decides nothing, repeats nothing that is done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from dtj_api import names

from dtj_operator.children import Object
from dtj_operator.cluster import Cluster
from dtj_operator.errors import AlreadyExists, Refused
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.refusal import Refusal, refused
from dtj_operator.policy.setup import blocked
from dtj_operator.snapshot import Blocker, Job, blocker

T = TypeVar("T")

MOST_IN_FLIGHT = 50
logger = logging.getLogger(__name__)


class _Taken(Exception):
    """The name of an object to create is another's."""

    def __init__(self, blocker: Blocker) -> None:
        super().__init__(f"{blocker.kind} {blocker.name} is of {blocker.owner}")
        self.blocker = blocker


class _NotAccepted(Exception):
    """The API server refused an object."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal.error))
        self.refusal = refusal


async def carry_out(cluster: Cluster, job: Job, decision: Decision) -> Decision:
    """Delete, rehearse, create. What earlier attempts left is deleted beside the creation, which does not wait for it.

    Returns:
        the decision as it came out: another one where the API server refused an object, or a name was taken.
    """
    if decision.delete_job:
        await cluster.delete(names.KIND, job.namespace, job.name, job.uid)
        return decision
    removing = asyncio.create_task(_remove(cluster, job, decision))
    try:
        return await _make(cluster, job, decision)
    finally:
        await removing


async def _remove(cluster: Cluster, job: Job, decision: Decision) -> None:
    await _in_growing_batches(lambda pod: cluster.delete("Pod", job.namespace, pod.name, pod.uid), decision.remove)
    for child in decision.discard:
        await cluster.delete(child.kind, job.namespace, child.name, child.uid)


async def _make(cluster: Cluster, job: Job, decision: Decision) -> Decision:
    await _repair(cluster, job, decision.repair)
    try:
        refusals = await _rehearse(cluster, job, decision.rehearse)
        if refusals or decision.faults:
            return refused(decision, refusals, decision.faults)
        for manifest in decision.create:
            await _create(cluster, job, manifest)
        await _in_growing_batches(lambda pod: _create(cluster, job, pod), decision.create_pods)
    except _Taken as taken:
        return blocked((taken.blocker,))
    except _NotAccepted as error:
        return refused(decision, [error.refusal])
    return decision


async def _rehearse(cluster: Cluster, job: Job, manifests: Iterable[Object]) -> list[Refusal]:
    """Every object that would be refused, so that all is told at once."""
    refusals = []
    for manifest in manifests:
        try:
            await _create(cluster, job, manifest, rehearse=True)
        except _NotAccepted as error:
            refusals.append(error.refusal)
    return refusals


async def _repair(cluster: Cluster, job: Job, manifests: Iterable[Object]) -> None:
    for manifest in manifests:
        try:
            await _create(cluster, job, manifest)
        except (_Taken, _NotAccepted) as error:
            logger.warning("%s/%s: cannot make its %s again: %s", job.namespace, job.name, manifest["kind"], error)


async def _create(cluster: Cluster, job: Job, manifest: Object, *, rehearse: bool = False) -> None:
    try:
        await cluster.create(manifest, rehearse=rehearse)
    except Refused as error:
        raise _NotAccepted(Refusal.of(manifest, error)) from error
    except AlreadyExists:
        metadata = manifest["metadata"]
        existing = await cluster.find(manifest["kind"], metadata["namespace"], metadata["name"])
        in_the_way = blocker(existing, job) if existing else None
        if in_the_way is not None:
            raise _Taken(in_the_way) from None


async def _in_growing_batches(call: Callable[[T], Awaitable[None]], things: Sequence[T]) -> None:
    """1, 2, 4, ... calls at a time: what the API server refuses is refused once, not once a worker.

    Raises:
        Exception: the first failure, after the rest of its batch has ended.
    """
    size = 1
    while things:
        batch, things = things[:size], things[size:]
        outcomes = await asyncio.gather(*(call(thing) for thing in batch), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        size = min(size * 2, MOST_IN_FLIGHT)
