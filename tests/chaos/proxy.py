"""Between one operator and the API server: plain HTTP in, the operator's own identity out. By itself it changes
nothing: disturbances decide what goes through, and how."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.api.harness import Object
from tests.chaos.recorder import NO_TIME_LIMIT, lines

VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
PASSED_ON = ("Accept", "Content-Type", "User-Agent")


class Cut(Exception):
    """The connection is closed without an answer."""


@dataclass(frozen=True)
class Call:
    """One request of the operator.

    Attributes:
        number: counted over the proxy's life, from 1; of writes (`write`) too, 0 for what is none. A rehearsal
            (dryRun) is none.
    """

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    body: Object | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    write: int = 0

    @property
    def parts(self) -> list[str]:
        """The path after group, version and namespace: resource, name, subresource."""
        words = self.path.strip("/").split("/")
        words = words[2:] if words[0] == "api" else words[3:]
        return words[2:] if words[:1] == ["namespaces"] and len(words) > 2 else words

    @property
    def resource(self) -> str:
        return self.parts[0] if self.parts else ""

    @property
    def name(self) -> str:
        return self.parts[1] if len(self.parts) > 1 else ""

    @property
    def verb(self) -> str:
        if self.method != "GET":
            return VERBS[self.method]
        if self.query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if self.name else "list"

    @property
    def writes(self) -> bool:
        return self.method != "GET" and "dryRun" not in self.query

    @property
    def label(self) -> str:
        """For people: `create pods gpt-0-1`, `patch status Running 1`, `create events Restarted`."""
        body = self.body or {}
        if self.verb == "patch" and self.parts[2:] == ["status"]:
            status = body.get("status") or {}
            told = [c["type"] + "=" + c["status"] for c in status.get("conditions") or ()]
            return " ".join(["patch status", str(status.get("phase", "-")), str(status.get("attempt", "-")), *told])
        if self.resource == "events":
            return f"{self.verb} events {body.get('reason') or self.name}"
        return f"{self.verb} {self.resource} {self.name or (body.get('metadata') or {}).get('name', '')}".strip()


@dataclass(frozen=True)
class Answer:
    """`cut`: the connection is closed when half of it is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


def refusal(status: int, reason: str, message: str, **headers: str) -> Answer:
    """As the API server words one."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
    text = json.dumps({**body, "message": message, "metadata": {}}).encode()
    return Answer(status, text, {name.replace("_", "-"): value for name, value in headers.items()})


class Disturbance:
    """Does nothing. What each of these may do is said where it is called, in Proxy.

    Attributes:
        done: how often it has disturbed.
        notes: what was done, for whoever looks into a failure.
        problems: what the operator did wrong that only who stands between can see.
        counts_writes: it strikes at certain writes of the undisturbed life, so this one must have the same.
        hinders_writes: some that were carried out are not followed by what should follow.
        only_resync_helps: a watch says nothing and does not end.
        patience: seconds that a step of the life may take longer for it.
        kill: ends the operator as `kill -9`, and starts a new one.
    """

    done = 0
    counts_writes = False
    hinders_writes = False
    only_resync_helps = False
    patience = 0.0
    kill: Callable[[], None]

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.problems: list[str] = []

    def came_too_late(self, proxy: "Proxy") -> bool:
        """Whether it never disturbed anything for want of an occasion; else a life without it shows nothing."""
        return False

    async def before(self, proxy: "Proxy", call: Call) -> Answer | None:
        """What is answered instead of passing the call on."""
        return None

    async def after(self, proxy: "Proxy", call: Call, answer: Answer) -> Answer:
        """What the operator gets of the API server's answer. May raise Cut."""
        return answer

    def rewrite(self, proxy: "Proxy", call: Call) -> Call:
        """What the API server is asked instead."""
        return call

    def stream(self, proxy: "Proxy", call: Call, events: AsyncIterator[Object]) -> AsyncIterator[Object]:
        """What the operator sees of a watch. To raise Cut breaks it off."""
        return events


class Proxy:
    """Use it as an async context manager.

    Attributes:
        calls: all that came, in order. `writes`: how many of them were writes.
        kubeconfig: leads the operator here.
    """

    def __init__(self, upstream: str, session: aiohttp.ClientSession, disturbances: Sequence[Disturbance] = ()) -> None:
        self.upstream = upstream
        self.session = session
        self.disturbances = disturbances
        self.calls: list[Call] = []
        self.url = ""
        self.writes = 0
        self._runner = web.AppRunner(
            _application(self._serve), access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def write_kubeconfig(self, path: Path) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        }
        path.write_text(json.dumps(content))
        return path

    async def ask(self, method: str, path: str, query: Mapping[str, str], **more: Any) -> Answer:
        """One call to the API server as the operator."""
        async with self.session.request(method, self.upstream + path, params=dict(query), **more) as answer:
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            return Answer(answer.status, await answer.read(), kept)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = await self._read(request)
        try:
            for disturbance in self.disturbances:
                if (instead := await disturbance.before(self, call)) is not None:
                    return await _send(request, instead)
            for disturbance in self.disturbances:
                call = disturbance.rewrite(self, call)
            if call.verb == "watch":
                return await self._watch(request, call)
            answer = await self.ask(call.method, call.path, call.query, json=call.body, headers=call.headers)
            for disturbance in self.disturbances:
                answer = await disturbance.after(self, call, answer)
            return await _send(request, answer)
        except (Cut, aiohttp.ClientError, OSError):
            return _hang_up(request)

    async def _read(self, request: web.Request) -> Call:
        text = await request.read()
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        body = json.loads(text) if text else None
        call = Call(len(self.calls) + 1, request.method, request.path, dict(request.query), body, headers)
        if call.writes:
            self.writes += 1
            call = Call(call.number, call.method, call.path, call.query, body, headers, self.writes)
        self.calls.append(call)
        return call

    async def _watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        url = self.upstream + call.path
        async with self.session.get(
            url, params=dict(call.query), headers=call.headers, timeout=NO_TIME_LIMIT
        ) as answer:
            if answer.status != 200:
                return await _send(request, Answer(answer.status, await answer.read()))
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            events = _events(answer)
            for disturbance in self.disturbances:
                events = disturbance.stream(self, call, events)
            async for event in events:
                await response.write(json.dumps(event).encode() + b"\n")
            await response.write_eof()
            return response


def _application(serve: Any) -> web.Application:
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", serve)
    return application


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    """Until the API server ends them, in whatever way."""
    with suppress(aiohttp.ClientError):
        async for line in lines(answer):
            yield json.loads(line)


async def _send(request: web.Request, answer: Answer) -> web.StreamResponse:
    headers = {"Content-Type": "application/json", **answer.headers}
    if not answer.cut:
        return web.Response(status=answer.status, body=answer.body, headers=headers)
    response = web.StreamResponse(status=answer.status, headers={**headers, "Content-Length": str(len(answer.body))})
    await response.prepare(request)
    await response.write(answer.body[: len(answer.body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
