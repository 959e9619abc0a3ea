"""progress.py against servers that stand for worker 0: honest, slow, lying, gone."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from dtj_api.progress import Progress
from dtj_operator.pods import Pod
from dtj_operator.progress import ProgressReader
from dtj_operator.snapshot import JobKey

KEY = JobKey("ml", "gpt")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[Pod]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve a handler at /progress; the pod it stands for."""
    runners = []

    async def start(handler: Handler) -> Pod:
        application = web.Application()
        application.router.add_get("/progress", handler)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        port = runner.addresses[0][1]
        return Pod("gpt-0-0", f"uid-{port}", 0, trainer_running=True, ip="127.0.0.1", metrics_port=port)

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def changes() -> "asyncio.Queue[JobKey]":
    return asyncio.Queue()


@pytest.fixture
async def reader(changes: "asyncio.Queue[JobKey]") -> AsyncIterator[ProgressReader]:
    reader = ProgressReader(changes.put_nowait, pause=0.02)
    yield reader
    await reader.close()


async def test_a_new_record_is_told_and_an_old_one_is_not(
    serve: Serve, reader: ProgressReader, changes: "asyncio.Queue[JobKey]"
) -> None:
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"step": 1 if asked < 5 else 2, "totalSteps": 3})

    chief = await serve(answer)
    assert reader.latest(KEY, chief) is None, "a reconcile never waits for a pod"
    assert await asyncio.wait_for(changes.get(), 10) == KEY
    assert reader.latest(KEY, chief) == Progress(1, 3)
    await asyncio.wait_for(changes.get(), 10)
    assert reader.latest(KEY, chief) == Progress(2, 3)
    assert asked >= 5
    assert changes.empty()


async def test_another_pod_is_another_conversation(
    serve: Serve, reader: ProgressReader, changes: "asyncio.Queue[JobKey]"
) -> None:
    async def first(_: web.Request) -> web.Response:
        return web.json_response({"step": 9, "totalSteps": 9})

    async def second(_: web.Request) -> web.Response:
        return web.json_response({"step": 1, "totalSteps": 9})

    reader.latest(KEY, await serve(first))
    await asyncio.wait_for(changes.get(), 10)
    successor = await serve(second)
    assert reader.latest(KEY, successor) is None
    await asyncio.wait_for(changes.get(), 10)
    assert reader.latest(KEY, successor) == Progress(1, 9)


async def _redirects(_: web.Request) -> web.Response:
    raise web.HTTPFound("/elsewhere")


async def _refuses(_: web.Request) -> web.Response:
    raise web.HTTPInternalServerError


async def _babbles(_: web.Request) -> web.Response:
    return web.Response(text="[" * 50_000)


async def _lies(_: web.Request) -> web.Response:
    return web.json_response({"step": -(10**30), "totalSteps": 1})


async def _is_of_another_version(_: web.Request) -> web.Response:
    return web.json_response({"steps_done": 1})


async def _never_stops(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65536)


@pytest.mark.parametrize("nonsense", [_redirects, _refuses, _babbles, _lies, _is_of_another_version, _never_stops])
async def test_nonsense_is_survived_and_the_next_answer_taken(
    serve: Serve, reader: ProgressReader, changes: "asyncio.Queue[JobKey]", nonsense: Handler
) -> None:
    asked = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked < 3:
            return await nonsense(request)
        return web.Response(text=json.dumps({"step": 1, "totalSteps": 3}))

    chief = await serve(answer)
    reader.latest(KEY, chief)
    await asyncio.wait_for(changes.get(), 10)
    assert asked == 3
    assert reader.latest(KEY, chief) == Progress(1, 3)


async def test_nobody_there_is_no_fault(reader: ProgressReader, changes: "asyncio.Queue[JobKey]") -> None:
    chief = Pod("gpt-0-0", "uid", 0, trainer_running=True, ip="127.0.0.1", metrics_port=1)
    assert reader.latest(KEY, chief) is None
    await asyncio.sleep(0.2)
    assert reader.latest(KEY, chief) is None
    assert changes.empty()
