"""Asks the API server whether it would take an object, by a dry run; what it would take is not asked again at once.

Nothing rests on a remembered yes: what is refused after it, when it is made, is told just the same.
"""

import asyncio
import hashlib
from collections import OrderedDict

import orjson

from dtj_operator.children import Object
from dtj_operator.cluster import Cluster
from dtj_operator.snapshot import Job

REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 4096


class Rehearsals:
    """A sweep's jobs often differ in nothing but their names, and what the webhook asked the operator would ask again.

    Of pods only: another kind's name may be taken.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # namespace, and digest of the words -> when they were taken
        self._taken: OrderedDict[tuple[str, bytes], float] = OrderedDict()

    async def ask(self, job: Job, manifest: Object) -> None:
        """
        Raises:
            errors.ApiError: as by creating it.
        """
        now = asyncio.get_running_loop().time()
        words = _digest(job) if manifest["kind"] == "Pod" else None
        taken_at = self._taken.get((job.namespace, words)) if words else None
        if taken_at is not None and now - taken_at < REMEMBERED_SECONDS:
            return
        await self._cluster.create(manifest, rehearse=True)
        if words:
            self._taken[job.namespace, words] = now
            self._taken.move_to_end((job.namespace, words))
            if len(self._taken) > MOST_REMEMBERED:
                self._taken.popitem(last=False)

    def doubt(self, namespace: str) -> None:
        """Something was refused there: a quota is used up, or a policy is new."""
        for key in [key for key in self._taken if key[0] == namespace]:
            del self._taken[key]


def _digest(job: Job) -> bytes | None:
    """Of the words that pods are made from; None where they cannot be compared."""
    try:
        text = orjson.dumps(job.spec, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # nested too deeply, or a number beyond 64 bits
        return None
    return hashlib.blake2b(text, digest_size=16).digest()
