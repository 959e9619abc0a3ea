"""Watches the real API server, past any proxy: everything that happens in every namespace, in the order it happened."""

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp
from dtj_api import names

from tests.api.harness import Object

COLLECTIONS = {
    names.PLURAL: f"/apis/{names.API_VERSION}/{names.PLURAL}",
    "pods": "/api/v1/pods",
    "services": "/api/v1/services",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "networkpolicies": "/apis/networking.k8s.io/v1/networkpolicies",
    "events": "/api/v1/events",
}
CHILDREN = ("pods", "services", "persistentvolumeclaims", "networkpolicies")
NO_TIME_LIMIT = aiohttp.ClientTimeout(total=None)


@dataclass(frozen=True)
class Seen:
    """One change, as a watch tells it. `version`: the API server's own count, one for all kinds."""

    kind: str
    type: str
    version: int
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def deleting(self) -> bool:
        return self.type == "DELETED" or bool(self.object["metadata"].get("deletionTimestamp"))


@dataclass
class History:
    """What happened in one namespace, and what is there now."""

    seen: list[Seen] = field(default_factory=list)
    now: dict[tuple[str, str], Object] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def in_order(self) -> list[Seen]:
        return sorted(self.seen, key=lambda one: one.version)

    def all(self, kind: str) -> list[Object]:
        return [thing for (of, _), thing in self.now.items() if of == kind]

    def take(self, one: Seen) -> None:
        self.seen.append(one)
        if one.type == "DELETED":
            self.now.pop((one.kind, one.name), None)
        else:
            self.now[one.kind, one.name] = one.object

    async def follow(self) -> AsyncIterator[Seen]:
        """Every change from the first on, as it comes."""
        for index in itertools.count():
            if index == len(self.seen):
                async with self.changed:
                    await self.changed.wait()
            yield self.seen[index]

    async def until(self, holds: Callable[[], object], what: str, deadline: float) -> None:
        """Wait until `holds` returns something true.

        Raises:
            AssertionError: it does not within `deadline` seconds.
        """
        try:
            async with asyncio.timeout(deadline), self.changed:
                await self.changed.wait_for(lambda: bool(holds()))
        except TimeoutError:
            raise AssertionError(f"not within {deadline:g} s: {what}") from None


class Recorder:
    """Use it as an async context manager; `histories` by namespace grow while it is open."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.histories: defaultdict[str, History] = defaultdict(History)
        self._url = url
        self._session = session
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for kind, path in COLLECTIONS.items():
            async with self._session.get(f"{self._url}{path}?limit=1") as answer:
                version = (await answer.json())["metadata"]["resourceVersion"]
            self._tasks.append(asyncio.create_task(self._follow(kind, path, version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: str, path: str, version: str) -> None:
        while True:
            query = {"watch": "true", "resourceVersion": version}
            async with self._session.get(self._url + path, params=query, timeout=NO_TIME_LIMIT) as answer:
                answer.raise_for_status()
                async for line in lines(answer):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise AssertionError(f"the watch of {kind} ended: {event['object']}")
                    metadata = event["object"]["metadata"]
                    version = metadata["resourceVersion"]
                    history = self.histories[metadata["namespace"]]
                    history.take(Seen(kind, event["type"], int(version), event["object"]))
                    async with history.changed:
                        history.changed.notify_all()


async def lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Of any length: aiohttp's own end at 128 KiB."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
