"""Disturbances of watches, and an API server that lags: what an operator sees late, twice, merged, or not at all."""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Literal
from urllib.parse import quote

from tests.api.harness import Object
from tests.chaos.faults import version_of
from tests.chaos.proxy import Answer, Call, Cut, Disturbance, Proxy

Trouble = Literal["ended", "gone", "delayed", "uneven", "repeated", "merged", "silent", "replayed"]
TROUBLES: tuple[Trouble, ...] = ("gone", "uneven", "ended", "delayed", "repeated", "merged", "silent", "replayed")
LONGEST_DELAY = 1.5
# how often each watch is broken in one life
BREAKS = 4
# as long as the operator waits before it gives up a silent watch, and some more
SILENCE_SECONDS = 130.0
EXPIRED = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}
NAMESPACED = "/namespaces/"


class Watches(Disturbance):
    """One kind of trouble in every watch.

    ended: after some events the rest is kept back and the stream ends: what it lost, a resumed watch finds.
    gone: so too, with a 410: whoever watches must list, and never sees the steps between.
    delayed: every event by up to 1.5 s, in order. uneven: all events of some watches by 1.5 s, the others at once.
    repeated: events come twice.
    merged: what happens within a second is told as one change an object.
    silent: after some events nothing more comes, and the stream does not end; once for each watch.
    replayed: as ended, and the resumed watch begins from a version long past.
    """

    def __init__(self, seed: int, trouble: Trouble) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._seed = seed
        self._trouble = trouble
        self.only_resync_helps = trouble == "silent"
        self.patience = SILENCE_SECONDS if trouble == "silent" else 0.0
        self._first: dict[str, str] = {}
        self._breaks_left: defaultdict[str, int] = defaultdict(lambda: 1 if trouble == "silent" else BREAKS)

    def rewrite(self, proxy: Proxy, call: Call) -> Call:
        version = call.query.get("resourceVersion", "0")
        broken = self._breaks_left[call.path] > 0
        if call.verb != "watch" or self._trouble != "replayed" or version == "0" or not broken:
            return call
        first = self._first.setdefault(call.path, version)
        self.done += first != version
        return replace(call, query={**call.query, "resourceVersion": first})

    def stream(self, proxy: Proxy, call: Call, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        if self._trouble in ("delayed", "uneven"):
            return self._delayed(events, self._shortest_delay(call))
        if self._trouble == "repeated":
            return self._repeated(events)
        if self._trouble == "merged":
            return self._merged(events)
        if self._breaks_left[call.path] == 0:
            return events
        self._breaks_left[call.path] -= 1
        return self._broken(events)

    async def _broken(self, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        left = self._random.randint(0, 8)
        async for event in events:
            if event["type"] != "BOOKMARK":
                left -= 1
            if left < 0:
                break
            yield event
        else:
            return
        self.done += self._trouble != "replayed"
        if self._trouble == "silent":
            await asyncio.Event().wait()
        await asyncio.sleep(self._random.uniform(0.1, 1.5))
        if self._trouble == "gone":
            yield EXPIRED

    async def _repeated(self, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        async for event in events:
            yield event
            if event["type"] != "BOOKMARK" and self._random.random() < 0.6:
                self.done += 1
                yield event

    def _shortest_delay(self, call: Call) -> float | None:
        """Seconds; None for no delay. Uneven, a watch keeps its own when it is opened anew."""
        if self._trouble == "delayed":
            return 0.0
        return LONGEST_DELAY if (len(call.resource) + self._seed // len(TROUBLES)) % 2 else None

    async def _delayed(self, events: AsyncIterator[Object], shortest: float | None) -> AsyncIterator[Object]:
        clock = asyncio.get_running_loop().time
        async for arrived, event in _arrivals(events):
            if shortest is not None:
                self.done += 1
                await asyncio.sleep(arrived + self._random.uniform(shortest, LONGEST_DELAY) - clock())
            yield event

    async def _merged(self, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        clock = asyncio.get_running_loop().time
        window: list[Object] = []
        ends = 0.0
        async for arrived, event in _arrivals(events, pulse=0.1):
            if event:
                ends = ends if window else arrived + self._random.uniform(0.2, 1.2)
                window.append(event)
            if window and clock() >= ends:
                for one in self._merge(window):
                    yield one
                window = []
        for one in self._merge(window):
            yield one

    def _merge(self, window: list[Object]) -> list[Object]:
        merged = merge(window)
        self.done += len(window) - len(merged)
        return merged


def merge(events: list[Object]) -> list[Object]:
    """One change an object, in the order of the last ones; an object that came and went was never there."""
    first: dict[str, str] = {}
    last: dict[str, Object] = {}
    for event in events:
        uid = event["object"]["metadata"].get("uid", "")
        first.setdefault(uid, event["type"])
        last.pop(uid, None)
        last[uid] = event
    merged = []
    for uid, event in last.items():
        if first[uid] == "ADDED" and event["type"] == "DELETED":
            continue
        merged.append({**event, "type": "ADDED"} if first[uid] == "ADDED" else event)
    return merged


async def _arrivals(events: AsyncIterator[Object], pulse: float | None = None) -> AsyncIterator[tuple[float, Object]]:
    """Events with the time they came, read even while the reader sleeps; with `pulse` an empty one each so many s."""
    clock = asyncio.get_running_loop().time
    queue: asyncio.Queue[tuple[float, Object] | None] = asyncio.Queue()

    async def pump() -> None:
        async for event in events:
            queue.put_nowait((clock(), event))
        queue.put_nowait(None)

    task = asyncio.create_task(pump())
    try:
        while True:
            item: tuple[float, Object] | None = (clock(), {})
            with suppress(TimeoutError):
                async with asyncio.timeout(pulse):
                    item = await queue.get()
            if item is None:
                return
            yield item
    finally:
        task.cancel()


class Lag(Disturbance):
    """An API server that lags: the operator is killed at the write `at`, and the next one is shown for some seconds the
    world as it was after the write `since`. What it writes meets the world as it is.

    Args:
        consistent: as API servers are (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions):
            only what is read from version "0" may be old, and watches are late. Else every read is old.
    """

    counts_writes = True

    def __init__(self, at: int, since: int, seconds: float = 6.0, *, consistent: bool = True) -> None:
        super().__init__()
        self._at = at
        self._since = since
        self._seconds = seconds
        self._consistent = consistent
        self._version = 0
        self._killed = False
        self._until = 0.0
        self._anew: set[int] = set()

    def _lags(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    def _may_be_old(self, call: Call) -> bool:
        asked = call.query.get("resourceVersion", "")
        return self._lags() and NAMESPACED in call.path and (not self._consistent or asked == "0")

    def came_too_late(self, proxy: Proxy) -> bool:
        """Where the operator's own writes tell it all before any watch does, nothing comes late."""
        return self._consistent and self._killed

    async def before(self, proxy: Proxy, call: Call) -> Answer | None:
        if self._killed and not self._until:
            # counted from the new one's first call: it takes a while to start
            self._until = asyncio.get_running_loop().time() + self._seconds
        if call.verb not in ("get", "list") or not self._may_be_old(call):
            return None
        self.done += 1
        if call.verb == "list":
            kept = {key: value for key, value in call.query.items() if key.endswith("Selector")}
            return await self._old(proxy, call.path, kept)
        path = call.path[: call.path.rindex(f"/{call.parts[1]}")]
        found = await self._old(proxy, path, {"fieldSelector": f"metadata.name={call.name}"})
        items = json.loads(found.body).get("items") or []
        if not items:
            missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"}
            return Answer(404, json.dumps(missing).encode())
        return Answer(200, json.dumps(items[0]).encode())

    async def after(self, proxy: Proxy, call: Call, answer: Answer) -> Answer:
        if call.write and call.write <= self._since:
            self._version = version_of(answer) or self._version
        if call.write == self._at and not self._killed:
            self._killed = True
            self.kill()
            raise Cut
        return answer

    def rewrite(self, proxy: Proxy, call: Call) -> Call:
        """A watch from any version begins from the old one."""
        if call.verb != "watch" or not self._may_be_old(call) or call.query.get("resourceVersion", "0") != "0":
            return call
        self._anew.add(call.number)
        dropped = ("sendInitialEvents", "resourceVersionMatch")
        query = {key: value for key, value in call.query.items() if key not in dropped}
        return replace(call, query={**query, "resourceVersion": str(self._version)})

    async def stream(self, proxy: Proxy, call: Call, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        if call.number in self._anew:
            kept = {key: value for key, value in call.query.items() if key.endswith("Selector")}
            for item in json.loads((await self._old(proxy, call.path, kept)).body)["items"]:
                yield {"type": "ADDED", "object": item}
        async for event in events:
            late = self._until - asyncio.get_running_loop().time()
            if late > 0 and int(event["object"]["metadata"]["resourceVersion"]) > self._version:
                self.done += 1
                await asyncio.sleep(late)
            yield event

    async def _old(self, proxy: Proxy, path: str, query: dict[str, str]) -> Answer:
        exact = {"resourceVersion": str(self._version), "resourceVersionMatch": "Exact"}
        return await proxy.ask("GET", quote(path), {**query, **exact})
