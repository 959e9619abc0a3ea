"""Disturbances do what they say, in front of an API server that is made up."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web

from tests.api.harness import Object
from tests.chaos.faults import Expiry, Kill, Outage, Refusals
from tests.chaos.proxy import Call, Disturbance, Proxy
from tests.chaos.streams import Trouble, Watches, merge

PODS = "/api/v1/namespaces/ml/pods"
EVENTS = 20


def change(type_: str, uid: str, version: int) -> Object:
    return {"type": type_, "object": {"metadata": {"uid": uid, "resourceVersion": str(version)}}}


class MadeUp:
    """Takes every write, and has a watch of 20 changes that it ends.

    Attributes:
        writes: that reached it, rehearsals left out.
        kills: of an operator that is none.
    """

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.kills = 0
        self.killed = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            first = int(request.query.get("resourceVersion") or 0) + 1
            for version in range(first, EVENTS + 1):
                await response.write(json.dumps(change("MODIFIED", "one", version)).encode() + b"\n")
            return response
        if request.method != "GET" and "dryRun" not in request.query:
            self.writes.append(request.path)
        return web.json_response({"metadata": {"resourceVersion": "7", "padding": "x" * 1000}, "items": []})

    def kill(self) -> None:
        self.kills += 1
        self.killed.set()


@asynccontextmanager
async def before(server: MadeUp, *disturbances: Disturbance) -> AsyncIterator["Client"]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.serve)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    for disturbance in disturbances:
        disturbance.kill = server.kill
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session, Proxy(url, session, disturbances) as proxy:
            yield Client(session, proxy.url)
    finally:
        await runner.cleanup()


class Client:
    """The operator's part."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def status(self, method: str = "POST", query: str = "") -> int | str:
        """Of an answer; `broken` where none came, or half of one."""
        try:
            async with self.session.request(method, f"{self.url}{PODS}{query}", json={}) as answer:
                await answer.read()
                return answer.status
        except aiohttp.ClientError:
            return "broken"

    async def watch(self, version: int = 0) -> list[Object]:
        """What came until the stream ended, or within some seconds."""
        found: list[Object] = []
        query = f"?watch=true&resourceVersion={version}"
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(2), self.session.get(f"{self.url}{PODS}{query}") as answer:
                async for line in answer.content:
                    found.append(json.loads(line))
        return found


def versions(events: Sequence[Object]) -> list[int]:
    return [int(event["object"]["metadata"]["resourceVersion"]) for event in events if event["type"] != "ERROR"]


async def test_nothing_is_changed_without_a_disturbance() -> None:
    server = MadeUp()
    async with before(server) as client:
        assert await client.status() == 200
        assert versions(await client.watch()) == list(range(1, EVENTS + 1))
    assert server.writes == [PODS]


@pytest.mark.parametrize("answered", [True, False])
async def test_killed_at_its_second_write_which_is_carried_out(answered: bool) -> None:
    server, kill = MadeUp(), Kill([2], answered=answered)
    async with before(server, kill) as client:
        assert await client.status() == 200
        assert await client.status(query="?dryRun=All") == 200, "a rehearsal is no write"
        assert await client.status("GET") == 200
        assert server.kills == 0
        assert await client.status() == (200 if answered else "broken")
        assert server.kills == (0 if answered else 1)
        assert await client.status() == ("broken" if answered else 200), "the next call comes too late"
    assert (server.kills, kill.done) == (1, 1)
    assert len(server.writes) == (2 if answered else 3)


async def test_an_idle_operator_is_killed_too() -> None:
    server, kill = MadeUp(), Kill([1], answered=True)
    async with before(server, kill) as client:
        await client.status()
        async with asyncio.timeout(5):
            await server.killed.wait()


async def test_refused_and_broken_off_whether_carried_out_or_not() -> None:
    server = MadeUp()
    seen: set[tuple[int | str, bool]] = set()
    async with before(server, Refusals(1, most=200, share=0.7)) as client:
        for _ in range(150):
            written = len(server.writes)
            seen.add((await client.status(), len(server.writes) > written))
    either = {(status, carried_out) for status in (500, 504, "broken") for carried_out in (True, False)}
    assert seen == {(200, True), (409, False), (429, False), *either}


async def test_who_comes_again_before_retry_after_is_told() -> None:
    impatient = Refusals(1, most=200, share=0.7)
    async with before(MadeUp(), impatient) as client:
        while await client.status() != 429:
            pass
        assert impatient.problems == []
        await client.status()
    assert impatient.problems == ["create pods  came again before Retry-After"]


@pytest.mark.parametrize(("longest", "told"), [(0.0, 1), (60.0, 0)])
async def test_who_comes_late_after_an_outage_is_told(
    longest: float, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.chaos.faults.LATE_SECONDS", longest)
    async with before(MadeUp(), outage := Outage(1, 0.1)) as client:
        while await client.status() == "broken":
            pass
    assert len(outage.problems) == told


async def test_refusals_end() -> None:
    server = MadeUp()
    async with before(server, Refusals(1, most=5, share=1.0)) as client:
        statuses = [await client.status() for _ in range(20)]
    assert statuses[-14:] == [200] * 14


async def test_the_rest_of_a_list_expires() -> None:
    async with before(MadeUp(), Expiry(1, most=2)) as client:
        assert await client.status("GET", "?limit=500") == 200
        statuses = [await client.status("GET", "?limit=500&continue=x") for _ in range(20)]
    assert sorted(statuses, key=str) == [200] * 18 + [410] * 2


@pytest.mark.parametrize("mute", [True, False])
async def test_nothing_gets_through_in_an_outage(mute: bool) -> None:
    server = MadeUp()
    async with before(server, Outage(2, 0.5, mute=mute)) as client:
        assert await client.status() == 200
        begun = asyncio.get_running_loop().time()
        assert await client.status() == "broken"
        assert (asyncio.get_running_loop().time() - begun >= 0.5) == mute
        async with asyncio.timeout(10):
            while await client.status() == "broken":
                pass
    assert asyncio.get_running_loop().time() - begun >= 0.5


@pytest.mark.parametrize("trouble", ["ended", "gone", "silent", "replayed"])
async def test_a_watch_that_breaks_loses_only_its_end(trouble: Trouble) -> None:
    async with before(MadeUp(), watches := Watches(3, trouble)) as client:
        first = await client.watch(1)
        seen = versions(first)
        assert seen == list(range(2, 2 + len(seen)))
        assert len(seen) < EVENTS - 1
        assert (first[-1:] != [] and first[-1]["type"] == "ERROR") == (trouble == "gone")
        assert (versions(await client.watch(9)) or [10])[0] == (2 if trouble == "replayed" else 10)
    assert watches.done


@pytest.mark.parametrize("trouble", ["repeated", "delayed", "uneven", "merged"])
async def test_a_watch_that_tells_all_in_its_own_way(trouble: Trouble) -> None:
    async with before(MadeUp(), watches := Watches(8, trouble)) as client:
        seen = versions(await client.watch())
    assert sorted(seen) == seen
    assert seen[-1] == EVENTS
    assert len(seen) > EVENTS if trouble == "repeated" else len(set(seen)) == len(seen)
    assert watches.done


def test_merged_changes_are_one_an_object() -> None:
    came = [change("ADDED", "a", 1), change("MODIFIED", "b", 2), change("MODIFIED", "a", 3), change("DELETED", "b", 4)]
    assert merge(came) == [change("ADDED", "a", 3), change("DELETED", "b", 4)]
    assert merge([change("ADDED", "a", 1), change("DELETED", "a", 2)]) == []


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "resource", "name"),
    [
        ("GET", "/api/v1/namespaces/ml/pods", {}, "list", "pods", ""),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch", "pods", ""),
        ("GET", "/api/v1/nodes/n1", {}, "get", "nodes", "n1"),
        ("PATCH", "/apis/dtj.dev/v1alpha1/namespaces/ml/jobs/gpt/status", {}, "patch", "jobs", "gpt"),
        ("DELETE", "/api/v1/namespaces/ml/services/gpt-0", {}, "delete", "services", "gpt-0"),
        ("GET", "/api/v1/namespaces/ml", {}, "get", "namespaces", "ml"),
    ],
)
def test_what_a_call_is(method: str, path: str, query: dict[str, str], verb: str, resource: str, name: str) -> None:
    call = Call(1, method, path, query)
    assert (call.verb, call.resource, call.name) == (verb, resource, name)
