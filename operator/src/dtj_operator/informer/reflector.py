"""Keeps the cache's children of one kind as the API server has them: list once, then watch on from there.

As client-go's reflector: https://pkg.go.dev/k8s.io/client-go/tools/cache#Reflector. Outside kopf, whose way of handling
an event takes longer than everything else that is done about it (docs/decisions.md).
"""

import asyncio
import logging
from collections.abc import Callable

from dtj_operator.cluster import Cluster
from dtj_operator.errors import ApiError
from dtj_operator.informer.cache import Cache
from dtj_operator.snapshot import JobKey

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
# the version of a watch from which one goes on is not known any more
GONE = 410


class Reflector:
    """One kind, in one namespace or in all.

    Args:
        changed: told the key of each job of which something is new.

    Attributes:
        synced: set once the cache holds what there was at the start.
        kind: what is watched.
    """

    def __init__(
        self, cluster: Cluster, cache: Cache, kind: str, namespace: str | None, changed: Callable[[JobKey], None]
    ) -> None:
        self._cluster, self._cache = cluster, cache
        self.kind, self._namespace = kind, namespace
        self._changed = changed
        self._version = ""
        self._failures = 0
        self.synced = asyncio.Event()
        self._heard_at = asyncio.get_running_loop().time()

    def silent_for(self) -> float:
        """Seconds since the API server last said anything, a bookmark included."""
        return asyncio.get_running_loop().time() - self._heard_at

    async def run(self) -> None:
        """For ever: nothing the API server says, or fails to say, ends it."""
        while True:
            begun = asyncio.get_running_loop().time()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                if error.status == GONE:
                    logger.info("the watch of %ss begins anew: %s", self.kind, error)
                    self._version = ""
                else:
                    logger.warning("the watch of %ss is interrupted: %s", self.kind, error)
                    # what cannot be watched from where it was left is listed
                    self._version = self._version if error.status == 0 or error.status >= 429 else ""
            lived = asyncio.get_running_loop().time() - begun
            self._failures = 0 if lived > LONGEST_PAUSE else self._failures + 1
            await asyncio.sleep(min(FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10), LONGEST_PAUSE))

    async def _list(self) -> None:
        items, version = await self._cluster.list_all(self.kind, self._namespace)
        self._heard()
        for key in self._cache.replace(self.kind, self._namespace, items, version):
            self._changed(key)
        self._version = version
        self.synced.set()

    async def _watch(self) -> None:
        async for event in self._cluster.watch(self.kind, self._namespace, self._version):
            self._heard()
            raw = event["object"]
            if event["type"] == "DELETED":
                key = self._cache.lose(raw["metadata"]["uid"])
            elif event["type"] == "BOOKMARK":
                key = None
            else:
                key = self._cache.see(raw)
            self._version = raw["metadata"]["resourceVersion"]
            if key is not None:
                self._changed(key)

    def _heard(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
