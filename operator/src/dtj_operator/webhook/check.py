"""One job's check at admission: what its spec shows, then what the API server says to the objects made from it."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from dtj_api.fields import FieldError

from dtj_operator.children import Object
from dtj_operator.cluster import Cluster
from dtj_operator.errors import AlreadyExists, ApiError, Refused
from dtj_operator.policy.admission import examine_job
from dtj_operator.policy.refusal import Refusal, together
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Job, take, user_claim_name

T = TypeVar("T")

logger = logging.getLogger(__name__)

# the chart's webhook waits for 10: past this, what is known by then is the answer
ANSWER_SECONDS = 7.0


async def check(
    cluster: Cluster, rehearsals: Rehearsals, settings: Settings, job: Job, seconds: float = ANSWER_SECONDS
) -> list[FieldError]:
    """Every fault of `job` that no waiting mends. An API server that does not answer in time is no fault of the job:
    the operator asks it again."""
    deadline = asyncio.get_running_loop().time() + seconds
    name = user_claim_name(job)
    # one that is not there may come
    claim = await _ask(cluster.find("PersistentVolumeClaim", job.namespace, name), deadline) if name else None
    examined = examine_job(take(job, [], claim), settings)
    answers = await asyncio.gather(*(_rehearse(rehearsals, job, manifest, deadline) for manifest in examined.rehearse))
    return together(examined.faults, [refusal for refusal in answers if refusal and not refusal.by_quota])


async def _rehearse(rehearsals: Rehearsals, job: Job, manifest: Object, deadline: float) -> Refusal | None:
    try:
        await _ask(rehearsals.ask(job, manifest), deadline)
    except Refused as error:
        return Refusal.of(manifest, error)
    return None


async def _ask(call: Awaitable[T], deadline: float) -> T | None:
    """What the API server says; None where it says neither yes nor no until `deadline` (of the loop's clock).

    Raises:
        Refused: it says no.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await call
    except Refused:
        raise
    except AlreadyExists:
        return None
    except (ApiError, TimeoutError) as error:
        logger.warning("a job is not checked to the end: %s", str(error) or "the API server did not answer in time")
        return None
