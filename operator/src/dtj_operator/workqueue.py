"""A queue of keys with client-go's semantics, and the workers that serve it. Knows nothing of jobs or of Kubernetes.

A key waits at most once, is never worked on by two workers, and if added meanwhile is worked on once more afterwards
(https://pkg.go.dev/k8s.io/client-go/util/workqueue). Unlike there, tenants take turns: whoever has a thousand keys
waiting does not hold up one who has one. And of a tenant's keys some are patient: what has begun, or has news, does not
wait behind a thousand that are new.
"""

import asyncio
import heapq
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dtj_operator.errors import ApiError, Conflict, Unavailable

Key = TypeVar("Key", bound=Hashable)
logger = logging.getLogger(__name__)

# So many keys go before a patient one while both wait. A job has about five looks from its creation until it runs.
PATIENCE = 8
FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 60.0
# An API server that is back should not find everybody asleep.
LONGEST_OUTAGE_BACKOFF = 10.0


class Clock(Protocol):
    """The part of an event loop that the queue needs; a test brings its own."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> object: ...


@dataclass(frozen=True)
class Requeue:
    """When to look at a key again: after some seconds, after its own growing back-off, or when something happens."""

    after: float | None = None
    backoff: bool = False


NEVER = Requeue()
NOW = Requeue(after=0)
BACKOFF = Requeue(backoff=True)


def sooner(one: Requeue, other: Requeue) -> Requeue:
    """Of two wishes the one that comes true first; a back-off is one's own failure, and goes first."""
    if one.backoff or other.backoff:
        return BACKOFF
    waits = [wish.after for wish in (one, other) if wish.after is not None]
    return Requeue(after=min(waits)) if waits else NEVER


@dataclass(frozen=True)
class Age:
    """Seconds for which the first of the waiting keys has waited, and the longest work of now has taken; 0 for none."""

    waiting: float
    working: float


class _Line(Generic[Key]):
    """One tenant's keys that wait: first come, first served, but for the patient ones."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Key, None] = OrderedDict()
        self._patient: OrderedDict[Key, None] = OrderedDict()
        self._passed_over = 0

    def __len__(self) -> int:
        return len(self._keys) + len(self._patient)

    def append(self, key: Key, *, patient: bool) -> None:
        (self._patient if patient else self._keys)[key] = None

    def hurry(self, key: Key) -> None:
        del self._patient[key]
        self._keys[key] = None

    def pop(self) -> Key:
        passes = bool(self._keys and self._patient) and self._passed_over < PATIENCE
        self._passed_over = self._passed_over + 1 if passes else 0
        keys = self._keys if passes or not self._patient else self._patient
        return keys.popitem(last=False)[0]


class WorkQueue(Generic[Key]):
    """See the module. All methods but `get` return at once; use it from one event loop only.

    Args:
        tenant: whose key it is; by default all are one tenant's.
    """

    def __init__(self, clock: Clock | None = None, tenant: Callable[[Key], Hashable] = lambda _: None) -> None:
        self._clock = clock or asyncio.get_running_loop()
        self._tenant = tenant
        # the tenant whose turn it is comes first
        self._queue: dict[Hashable, _Line[Key]] = {}
        # since when
        self._queued: dict[Key, float] = {}
        self._processing: dict[Key, float] = {}
        self._dirty: set[Key] = set()
        # of those
        self._patient: set[Key] = set()
        self._waiting: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._failures: dict[Key, int] = {}
        self._wakeup: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._queue.values()))

    def age(self) -> Age:
        now = self._clock.time()
        # both are in the order of their times
        return Age(*(now - next(iter(since.values()), now) for since in (self._queued, self._processing)))

    def add(self, key: Key, *, patient: bool = False) -> None:
        """Have `key` worked on soon; a `patient` one gives way to those that are not."""
        if key not in self._dirty:
            self._dirty.add(key)
            if patient:
                self._patient.add(key)
            if key not in self._processing:
                self._push(key)
        elif not patient and key in self._patient:
            self._patient.discard(key)
            if key not in self._processing:
                self._queue[self._tenant(key)].hurry(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have `key` worked on in `seconds`; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.time() + seconds
        if due >= self._waiting.get(key, float("inf")):
            return
        self._waiting[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._clock.call_at(due, self._release_due)

    def add_rate_limited(self, key: Key, longest: float = LONGEST_BACKOFF) -> None:
        """Have `key` worked on after a pause that doubles with each call until `forget`, up to `longest` seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_BACKOFF * 2.0 ** min(failures, 30), longest))

    def failures(self, key: Key) -> int:
        """Calls of `add_rate_limited` since the last `forget`."""
        return self._failures.get(key, 0)

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The next key; call `done` with it afterwards, whatever happened."""
        while not self._queue:
            waiter = asyncio.get_running_loop().create_future()
            self._wakeup.append(waiter)
            await waiter
        tenant, line = next(iter(self._queue.items()))
        key = line.pop()
        del self._queue[tenant]
        if len(line):
            self._queue[tenant] = line
        self._patient.discard(key)
        del self._queued[key]
        self._processing[key] = self._clock.time()
        self._dirty.discard(key)
        return key

    def done(self, key: Key) -> None:
        self._processing.pop(key, None)
        if key in self._dirty:
            self._push(key)

    def _push(self, key: Key) -> None:
        self._queued[key] = self._clock.time()
        self._queue.setdefault(self._tenant(key), _Line()).append(key, patient=key in self._patient)
        while self._wakeup:
            waiter = self._wakeup.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _release_due(self) -> None:
        while self._heap and self._heap[0][0] <= self._clock.time():
            due, _, key = heapq.heappop(self._heap)
            # an earlier wish may have replaced this one
            if self._waiting.get(key) == due:
                del self._waiting[key]
                self.add(key)


async def serve(queue: WorkQueue[Key], work: Callable[[Key], Awaitable[Requeue]], *, workers: int) -> None:
    """Work on the queue's keys for ever, `workers` at a time. One key's failure never ends another's."""
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_serve_alone(queue, work))


async def _serve_alone(queue: WorkQueue[Key], work: Callable[[Key], Awaitable[Requeue]]) -> None:
    while True:
        key = await queue.get()
        try:
            _look_again(queue, key, await work(key))
        except Unavailable as error:
            logger.warning("%s: the API server is not available: %s", key, error)
            queue.add_rate_limited(key, LONGEST_OUTAGE_BACKOFF)
            # the delayed set keeps the earlier of two wishes: the server's own must not be undercut
            if error.retry_after:
                await asyncio.sleep(min(error.retry_after, LONGEST_BACKOFF))
        except Conflict as error:
            logger.debug("%s: changed meanwhile: %s", key, error)
            queue.add_rate_limited(key)
        except ApiError as error:
            logger.warning("%s: the API server says no; will try again: %s", key, error)
            queue.add_rate_limited(key)
        except Exception as error:
            if queue.failures(key) == 0:
                logger.exception("%s: cannot be reconciled; will try again", key)
            else:
                logger.error("%s: still cannot be reconciled (try %d): %s", key, queue.failures(key) + 1, error)
            queue.add_rate_limited(key)
        finally:
            queue.done(key)


def _look_again(queue: WorkQueue[Key], key: Key, requeue: Requeue) -> None:
    if requeue.backoff:
        queue.add_rate_limited(key)
        return
    queue.forget(key)
    if requeue.after is not None:
        queue.add_after(key, requeue.after)
