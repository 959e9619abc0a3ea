"""One operator at work, however many run: whoever holds the Lease. Times are the loop's own, never another machine's.

As client-go's leader election (https://pkg.go.dev/k8s.io/client-go/tools/leaderelection): a lease that has not changed
for its whole duration, by the clock of whoever looks at it, may be taken; its holder gives up some seconds before that.
Not the Kubernetes client's port: it goes by the wall clock and lets a paused holder write on (docs/decisions.md).
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import AlreadyExists, ApiError, Conflict, NotFound

logger = logging.getLogger(__name__)

# Of the lease's duration: for how long a renewal lets its holder write, and the pause between two looks.
HOLD, RETRY = 2 / 3, 2 / 15


class LeaseLost(Exception):
    """Another operator may be at work."""


class Leadership:
    """A claim to one Lease.

    Args:
        identity: of this process, like of no other there ever was.
        duration: seconds without a change after which another may take the lease.
        clock: seconds of a clock that goes on while the process is paused.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        duration: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._namespace, self._name, self._identity = namespace, name, identity
        self._duration = duration
        self._clock = clock
        self._held_until = 0.0
        self._seen: Object = {}
        self._seen_at = clock()

    @property
    def held(self) -> bool:
        """Whether this process may write. False as soon as another's claim could be good."""
        return self._clock() < self._held_until

    async def acquire(self) -> None:
        """Return once the lease is held."""
        waiting = False
        while not await self._try():
            if not waiting:
                logger.info("another operator is at work: %s; waiting for the lease", self._seen.get("holderIdentity"))
                waiting = True
            await asyncio.sleep(self._duration * RETRY)
        logger.info("this operator is at work: it holds the lease %s/%s", self._namespace, self._name)

    async def keep(self) -> None:
        """Renew the lease for ever.

        Raises:
            LeaseLost: it could not be renewed in time.
        """
        while self.held:
            await asyncio.sleep(self._duration * RETRY)
            await self._try()
        raise LeaseLost(f"the lease {self._namespace}/{self._name} could not be renewed in time")

    async def release(self) -> None:
        """Give the lease back, so that nobody has to wait for its end."""
        if not self.held:
            return
        self._held_until = 0.0
        try:
            lease = await self._cluster.get_lease(self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._cluster.replace_lease({**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        except ApiError as error:
            logger.warning("the lease could not be given back: %s", error)

    async def _try(self) -> bool:
        """Whether the lease is held now; it is then for a part of its duration from before the call."""
        begun = self._clock()
        try:
            taken = await self._take()
        except (Conflict, AlreadyExists):
            taken = False
        except ApiError as error:
            logger.warning("the lease cannot be read or renewed: %s", error)
            return False
        if taken:
            self._held_until = begun + self._duration * HOLD
        return taken

    async def _take(self) -> bool:
        try:
            lease = await self._cluster.get_lease(self._namespace, self._name)
        except NotFound:
            metadata = {"namespace": self._namespace, "name": self._name}
            await self._cluster.create_lease({"metadata": metadata, "spec": self._claim({})})
            return True
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock()
        mine = spec.get("holderIdentity") == self._identity
        expired = self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or self._duration)
        if not (mine or expired or not spec.get("holderIdentity")):
            return False
        # the version that was read goes with it: of two that want the lease one is refused
        await self._cluster.replace_lease({**lease, "spec": self._claim(spec)})
        return True

    def _claim(self, before: Object) -> Object:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if before.get("holderIdentity") == self._identity:
            return {**before, "renewTime": now}
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (1 if before else 0),
        }
