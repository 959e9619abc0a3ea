"""Carries decisions out: all writes to the cluster but the status. Decides nothing, repeats nothing that is done."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from dtj_api import names

from dtj_operator.children import Object
from dtj_operator.cluster import Cluster
from dtj_operator.errors import AlreadyExists, Refused
from dtj_operator.informer import Cache
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.refusal import Refusal, refused
from dtj_operator.policy.setup import blocked
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.snapshot import Blocker, Child, Job, blocker, observe

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


class Actor:
    """Carries decisions out. What the API server answers is in the cache before the next look."""

    def __init__(self, cluster: Cluster, cache: Cache, rehearsals: Rehearsals) -> None:
        self._cluster = cluster
        self._cache = cache
        self._rehearsals = rehearsals

    async def carry_out(self, job: Job, decision: Decision) -> Decision:
        """Delete, rehearse, create. What earlier attempts left is deleted beside the creation, which does not wait.

        Returns:
            the decision as it came out: another one where the API server refused an object, or a name was taken.
        """
        if decision.delete_job:
            await self._cluster.delete(names.KIND, job.namespace, job.name, job.uid)
            return decision
        made: list[Decision] = []

        async def make() -> None:
            made.append(await self._make(job, decision))

        await _together([make(), self._remove(job, decision)])
        return made[0]

    async def _remove(self, job: Job, decision: Decision) -> None:
        pods = _side_by_side(lambda pod: self._delete("Pod", job, pod.name, pod.uid), decision.remove)
        await _together([pods, self._discard(job, decision.discard)])

    async def _discard(self, job: Job, children: Iterable[Child]) -> None:
        for child in children:
            await self._delete(child.kind, job, child.name, child.uid)

    async def _delete(self, kind: str, job: Job, name: str, uid: str) -> None:
        left = await self._cluster.delete(kind, job.namespace, name, uid)
        if left is None:
            self._cache.lose(uid)
        else:
            self._cache.see(left)

    async def _make(self, job: Job, decision: Decision) -> Decision:
        await self._repair(job, decision.repair)
        try:
            refusals = await self._rehearse(job, decision.rehearse)
            if refusals or decision.faults:
                return refused(decision, refusals, decision.faults)
            for manifest in decision.create:
                await self._create(job, manifest)
            await _side_by_side(lambda pod: self._create(job, pod), decision.create_pods)
        except _Taken as taken:
            return blocked((taken.blocker,))
        except _NotAccepted as error:
            return refused(decision, [error.refusal])
        return decision

    async def _rehearse(self, job: Job, manifests: Iterable[Object]) -> list[Refusal]:
        """Every object that would be refused, so that all is told at once."""
        refusals = []
        for manifest in manifests:
            try:
                await self._asking(job, manifest, self._rehearsals.ask(job, manifest))
            except _NotAccepted as error:
                refusals.append(error.refusal)
        return refusals

    async def _repair(self, job: Job, manifests: Iterable[Object]) -> None:
        for manifest in manifests:
            try:
                await self._create(job, manifest)
            except (_Taken, _NotAccepted) as error:
                logger.warning("%s/%s: cannot make its %s again: %s", job.namespace, job.name, manifest["kind"], error)

    async def _create(self, job: Job, manifest: Object) -> None:
        made = await self._asking(job, manifest, self._cluster.create(manifest))
        if made:
            self._cache.see({**made, "kind": manifest["kind"]})

    async def _asking(self, job: Job, manifest: Object, call: Awaitable[Object | None]) -> Object | None:
        """What became of an object that is to be made or rehearsed: the one that is there, if there is one.

        Raises:
            _Taken, _NotAccepted: it cannot be.
        """
        try:
            return await call
        except Refused as error:
            self._rehearsals.doubt(job.namespace)
            raise _NotAccepted(Refusal.of(manifest, error)) from error
        except AlreadyExists:
            metadata = manifest["metadata"]
            existing = await self._cluster.find(manifest["kind"], metadata["namespace"], metadata["name"])
            in_the_way = blocker(observe(existing), job) if existing else None
            if in_the_way is not None:
                raise _Taken(in_the_way) from None
            return existing


async def _side_by_side(call: Callable[[T], Awaitable[None]], things: Sequence[T]) -> None:
    """1, 2, 4, ... calls at a time, and from then on `MOST_IN_FLIGHT` without a pause between them: what the API server
    refuses is refused once, not once a worker.

    Raises:
        Exception: the first failure; what was begun by then has ended.
    """
    size = 1
    while things and size < MOST_IN_FLIGHT:
        batch, things = things[:size], things[size:]
        await _together([call(thing) for thing in batch])
        size *= 2
    rest = iter(things)

    async def go_through() -> None:
        for thing in rest:
            try:
                await call(thing)
            except BaseException:
                deque(rest, maxlen=0)  # nobody takes another
                raise

    await _together([go_through() for _ in range(min(MOST_IN_FLIGHT, len(things)))])


async def _together(calls: Iterable[Awaitable[None]]) -> None:
    """
    Raises:
        Exception: the first failure, but that of the API server that asks for the longest pause.
    """
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        raise max(failures, key=lambda failure: getattr(failure, "retry_after", None) or 0.0)
