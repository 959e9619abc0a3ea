"""workqueue.py: client-go's semantics, on a clock that the test moves."""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable

import pytest
from dtj_operator.errors import Unavailable
from dtj_operator.workqueue import BACKOFF, NEVER, PATIENCE, Requeue, WorkQueue, serve


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (when, next(self._order), callback))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end:
            self.now, _, callback = heapq.heappop(self._calls)
            callback()
        self.now = end


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue(clock)


async def test_a_key_waits_once(queue: WorkQueue[str]) -> None:
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_worked_on_comes_again_and_only_then(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert len(queue) == 1
    queue.done(await queue.get())
    assert len(queue) == 0


async def test_the_earliest_of_several_delays_counts(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    clock.advance(4.9)
    assert len(queue) == 0
    clock.advance(0.2)
    assert await queue.get() == "a"
    queue.done("a")
    clock.advance(60)
    assert len(queue) == 0


async def test_backoff_doubles_until_forgotten(queue: WorkQueue[str], clock: FakeClock) -> None:
    pauses = []
    for _ in range(14):
        queue.add_rate_limited("a")
        start = clock.now
        while not len(queue):
            clock.advance(0.05)
        pauses.append(clock.now - start)
        queue.done(await queue.get())
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.06)
    assert pauses[-1] == pytest.approx(60, abs=0.06)
    queue.forget("a")
    queue.add_rate_limited("a")
    clock.advance(0.11)
    assert len(queue) == 1


async def test_a_waiting_worker_is_woken(queue: WorkQueue[str]) -> None:
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await getting == "a"


async def test_one_key_is_never_worked_on_twice_at_a_time_nor_does_its_fault_stop_others(
    queue: WorkQueue[str], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    at_work: set[str] = set()
    seen: list[str] = []

    async def work(key: str) -> Requeue:
        assert key not in at_work
        at_work.add(key)
        await asyncio.sleep(0)
        at_work.discard(key)
        seen.append(key)
        if key == "bad":
            raise RuntimeError("a bug")
        if key == "busy":
            raise Unavailable(503, "", "")
        return BACKOFF if key == "quota" else NEVER

    serving = asyncio.create_task(serve(queue, work, workers=3))
    for key in ("bad", "good", "quota", "good", "busy"):
        queue.add(key)
    await _quiet()
    assert sorted(seen) == ["bad", "busy", "good", "quota"]
    with caplog.at_level(logging.ERROR):
        clock.advance(0.1)
        await _quiet()
    assert sorted(seen) == ["bad", "bad", "busy", "busy", "good", "quota", "quota"]
    traces = [bool(record.exc_info) for record in caplog.records if record.message.startswith("bad")]
    assert traces == [True, False], "the traceback is logged once"
    serving.cancel()


async def _quiet() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_tenants_take_turns(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock, tenant=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "c1", "c2"):
        queue.add(key)
    assert len(queue) == 6
    assert [await queue.get() for _ in range(6)] == ["a1", "b1", "c1", "a2", "c2", "a3"]


async def test_patient_keys_give_way_but_not_for_ever(queue: WorkQueue[str]) -> None:
    for number in range(2):
        queue.add(f"new-{number}", patient=True)
    order = []
    for number in range(2 * PATIENCE):
        queue.add(f"begun-{number}")
    while len(queue):
        order.append((await queue.get()).partition("-")[0])
    assert order == (["begun"] * PATIENCE + ["new"]) * 2


async def test_a_patient_key_that_has_news_hurries(queue: WorkQueue[str]) -> None:
    for key in ("a", "b"):
        queue.add(key, patient=True)
    queue.add("b")
    queue.add("b", patient=True)
    queue.add("c")
    assert [await queue.get() for _ in range(3)] == ["b", "c", "a"]
    # while it is worked on, too
    queue.add("a", patient=True)
    queue.add("a")
    queue.add("d", patient=True)
    queue.add("e")
    queue.done("a")
    assert [await queue.get() for _ in range(3)] == ["e", "a", "d"]
    assert len(queue) == 0


async def test_a_patient_key_comes_when_nobody_else_waits(queue: WorkQueue[str]) -> None:
    queue.add("a", patient=True)
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0
    assert queue.age().waiting == 0


async def test_pauses_of_an_outage_stay_short() -> None:
    clock, pauses = FakeClock(), []
    queue: WorkQueue[str] = WorkQueue(clock)
    for _ in range(12):
        queue.add_rate_limited("a", 10.0)
        before = clock.time()
        while not len(queue):
            clock.advance(0.05)
        pauses.append(clock.time() - before)
        queue.done(await queue.get())
    assert pauses[-1] == pytest.approx(10, abs=0.06)
