"""Disturbances of calls: a killed operator, answers that fail, lists that expire, an API server that is away."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace

from tests.api.harness import Object
from tests.chaos.proxy import Answer, Call, Cut, Disturbance, Proxy, refusal

# an operator that does nothing more after a write is killed after so many seconds
IDLE_SECONDS = 0.1
# from the end of an outage until the write that was due at its begin
LATE_SECONDS = 20.0
# as API servers send it
RETRY_AFTER = 1


class Kill(Disturbance):
    """Kills the operator at writes of these numbers, once each: they are carried out.

    Args:
        answered: it learns so, and lives until its next call; else it dies waiting for the answer.
    """

    counts_writes = True

    def __init__(self, at: Collection[int], *, answered: bool = False) -> None:
        super().__init__()
        self._left = set(at)
        self._answered = answered
        self._timer: asyncio.TimerHandle | None = None

    def came_too_late(self, proxy: Proxy) -> bool:
        """The number of writes of a life can differ by one or two, and nothing follows the last."""
        return self._timer is not None or min(self._left, default=0) > proxy.writes

    async def before(self, proxy: Proxy, call: Call) -> Answer | None:
        if self._timer is not None:
            self._kill()
            raise Cut
        return None

    async def after(self, proxy: Proxy, call: Call, answer: Answer) -> Answer:
        if call.write not in self._left:
            return answer
        self._left.discard(call.write)
        if not self._answered:
            self._kill()
            raise Cut
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._kill)
        return answer

    def _kill(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.done += 1
        self.kill()


class Refused(Disturbance):
    """Answers some writes in one way, each of them once.

    Args:
        kind: a status, or `cut` for none.
        chosen: which writes.
        carried_out: all the same.
    """

    counts_writes = True
    hinders_writes = True

    def __init__(self, kind: str, chosen: Callable[[Call], bool], *, carried_out: bool = False) -> None:
        super().__init__()
        self._kind = kind
        self._chosen = chosen
        self._carried_out = carried_out
        self._refused: set[str] = set()

    async def before(self, proxy: Proxy, call: Call) -> Answer | None:
        return None if self._carried_out else self._refuse(call)

    async def after(self, proxy: Proxy, call: Call, answer: Answer) -> Answer:
        return (self._refuse(call) if self._carried_out else None) or answer

    def _refuse(self, call: Call) -> Answer | None:
        what = identity(call)
        if not call.write or what in self._refused or not self._chosen(call):
            return None
        self._refused.add(what)
        self.done += 1
        self.notes.append(what)
        if self._kind == "cut":
            raise Cut
        return _failure(self._kind)


class Refusals(Disturbance):
    """Answers calls about objects at random as an overloaded or failing API server does, and breaks connections; a
    write may have been carried out all the same. For other calls see BrokenStart.

    Args:
        most: of them in one life, so that it ends.
        share: of calls.
    """

    hinders_writes = True
    # the pause between two looks at a job doubles while they fail
    patience = 60.0
    NOT_CARRIED_OUT = ("429", "500", "504", "cut")
    CARRIED_OUT = ("504", "500", "cut", "half")

    def __init__(self, seed: int, *, most: int = 12, share: float = 0.1) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._most = most
        self._share = share
        self._not_before: dict[str, float] = {}

    async def before(self, proxy: Proxy, call: Call) -> Answer | None:
        now = asyncio.get_running_loop().time()
        what = identity(call)
        if now < self._not_before.pop(what, 0.0) and call.writes:
            self.problems.append(f"{what} came again before Retry-After")
        if not self._strikes(call):
            return None
        kind = self._random.choice((*self.NOT_CARRIED_OUT, *(("409",) if call.writes else ())))
        self.notes.append(f"{kind} to {call.label}")
        if kind == "cut":
            raise Cut
        if kind == "429":
            self._not_before[what] = now + RETRY_AFTER
            return refusal(429, "TooManyRequests", "please try again later", Retry_After=str(RETRY_AFTER))
        return _failure(kind)

    async def after(self, proxy: Proxy, call: Call, answer: Answer) -> Answer:
        if not self._strikes(call):
            return answer
        kind = self._random.choice(self.CARRIED_OUT)
        self.notes.append(f"{kind} to {call.label}, carried out")
        if kind == "cut":
            raise Cut
        return replace(answer, cut=True) if kind == "half" else _failure(kind)

    def _strikes(self, call: Call) -> bool:
        strikes = bool(call.resource) and self.done < self._most and self._random.random() < self._share
        self.done += strikes
        return strikes


def identity(call: Call) -> str:
    """The same for a write and its repetition."""
    return f"{call.label} {(call.body or {}).get('metadata', {}).get('name', '')}"


def _failure(kind: str) -> Answer:
    reasons = {
        "409": ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        "500": ("InternalError", "etcdserver: leader changed"),
        "504": ("Timeout", "Timeout: request did not complete within the allotted timeout"),
    }
    return refusal(int(kind), *reasons[kind])


class BrokenStart(Disturbance):
    """The first answers about what the API server serves break off half way; there is one at each operator's start.

    Args:
        most: of them in one life.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def after(self, proxy: Proxy, call: Call, answer: Answer) -> Answer:
        if call.resource or self.done == self._most:
            return answer
        self.done += 1
        self.notes.append(f"{call.path} broken off")
        return replace(answer, cut=True)


class Expiry(Disturbance):
    """Lists come one object a page; the rest of the first and of some others has expired when it is asked for: 410."""

    def __init__(self, seed: int, *, most: int = 12) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._most = most

    def rewrite(self, proxy: Proxy, call: Call) -> Call:
        return replace(call, query={**call.query, "limit": "1"}) if "limit" in call.query else call

    async def before(self, proxy: Proxy, call: Call) -> Answer | None:
        spared = self.done >= self._most or (self.done and self._random.random() < 0.5)
        if spared or "continue" not in call.query:
            return None
        self.done += 1
        return refusal(
            410, "Expired", "The provided continue parameter is too old to display a consistent list result."
        )


class Outage(Disturbance):
    """From the write of that number on nothing gets through for so many seconds.

    Args:
        mute: connections stay open and nothing comes; else they break, and new ones are refused.
    """

    counts_writes = True
    hinders_writes = True

    def __init__(self, at: int, seconds: float, *, mute: bool = False) -> None:
        super().__init__()
        self.patience = seconds + LATE_SECONDS
        self._at = at
        self._seconds = seconds
        self._mute = mute
        self._ended = 0.0
        self._away = asyncio.Event()
        self._back = asyncio.Event()

    async def before(self, proxy: Proxy, call: Call) -> Answer | None:
        if call.write >= self._at and not self.done:
            self.done += 1
            self._away.set()
            asyncio.get_running_loop().call_later(self._seconds, self._end)
        if self._away.is_set():
            if self._mute:
                await self._back.wait()
            raise Cut
        if call.write and self._ended:
            late = asyncio.get_running_loop().time() - self._ended
            self._ended = 0.0
            self.notes.append(f"{call.label} {late:.0f} s after the outage")
            if late > LATE_SECONDS:
                self.problems.append(self.notes[-1])
        return None

    def _end(self) -> None:
        self._ended = asyncio.get_running_loop().time()
        self._away.clear()
        self._back.set()

    async def stream(self, proxy: Proxy, call: Call, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        away = asyncio.create_task(self._away.wait())
        coming: asyncio.Task[Object | None] = asyncio.create_task(_next(events))
        try:
            while True:
                await asyncio.wait({away, coming}, return_when=asyncio.FIRST_COMPLETED)
                if away.done():
                    if self._mute:
                        await self._back.wait()
                    raise Cut
                event = coming.result()
                if event is None:
                    return
                yield event
                coming = asyncio.create_task(_next(events))
        finally:
            away.cancel()
            coming.cancel()


async def _next(events: AsyncIterator[Object]) -> Object | None:
    return await anext(events, None)


def version_of(answer: Answer) -> int:
    """The resourceVersion of an answer; 0 where it has none."""
    metadata = json.loads(answer.body).get("metadata") or {}
    return int(metadata.get("resourceVersion") or 0)
