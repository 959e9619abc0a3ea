"""A bare client of the API server: aiohttp, orjson, nothing between. It loads, it looks, and it is the floor."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

Object = dict[str, Any]

IN_FLIGHT = 50
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)


class RequestFailed(Exception):
    """The API server said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:500]}")
        self.status = status


class Client:
    """Calls with the user of a kubeconfig that the testbed wrote. Use it as an async context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        config = orjson.loads(kubeconfig.read_bytes())
        self._url: str = config["clusters"][0]["cluster"]["server"]
        self._ssl = _context(kubeconfig, config)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT + 10, ssl=self._ssl)
        self._session = aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, read_bufsize=2**20)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """One request.

        Raises:
            RequestFailed: the answer is an error.
        """
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else orjson.dumps(body)
        answer: Object = orjson.loads(await self.send(method, path, data, kind))
        return answer

    async def send(self, method: str, path: str, data: bytes | None, kind: str = "application/json") -> bytes:
        headers = {"Content-Type": kind, "Accept": "application/json"}
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            text = await response.read()
            if response.status >= 400:
                raise RequestFailed(response.status, text.decode(errors="replace"))
            return text

    async def post_all(self, items: Iterable[tuple[str, bytes]], in_flight: int = IN_FLIGHT) -> None:
        """POST each body to its path, in order, so many at a time."""
        waiting = iter(items)

        async def post_next() -> None:
            for path, body in waiting:
                await self.send("POST", path, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(post_next())

    async def events(self, path: str) -> AsyncIterator[Object]:
        """Watch from now on, until the API server ends it; what is there comes first. `path` may have a query."""
        url = f"{self._url}{path}{'&' if '?' in path else '?'}watch=true"
        async with self._session.get(url, headers={"Accept": "application/json"}) as response:
            if response.status >= 400:
                raise RequestFailed(response.status, await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for event in map(orjson.loads, lines):
                    if event["type"] == "ERROR":  # such as: the cache of that kind is not filled yet
                        return
                    yield event


def _context(kubeconfig: Path, config: Object) -> ssl.SSLContext:
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    pair = kubeconfig.with_suffix(".pem")
    user = config["users"][0]["user"]
    pair.write_bytes(b"\n".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    context.load_cert_chain(pair)
    return context
