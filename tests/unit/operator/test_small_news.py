"""What nobody waits for is told with what comes next: one process, from look to look."""

from datetime import timedelta

import pytest
from dtj_operator.cluster import Object
from dtj_operator.reconciler import QUIET_UNDER_LOAD, Reconciler

from tests.unit.operator.builders import SETTINGS
from tests.unit.operator.memory_cluster import MemoryCluster
from tests.unit.operator.reconciling import GANG, KEY, Operator, pods, run_all

QUIET = SETTINGS.quiet_seconds


class OneProcess:
    """It hears of everything at once. `load`: jobs wait for their turn."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.operator = Operator(self.cluster)
        self.load = False
        self._reconciler: Reconciler | None = None
        self.cluster.submit("gpt", GANG)

    async def look(self, after: float = 0.0) -> float | None:
        self.operator.now += timedelta(seconds=after)
        known = self.cluster.as_watched()
        if self._reconciler is None:
            self._reconciler = self.operator.process(known, under_load=lambda: self.load)
        self._reconciler._cache = known
        self._reconciler._actor._cache = known
        return (await self._reconciler.reconcile(KEY)).after

    async def create(self) -> None:
        """Until all pods are there."""
        while len(pods(self.cluster)) < GANG["workers"]:
            assert await self.look() == 0

    def told(self) -> tuple[list[str], str, str]:
        reasons = [event["reason"] for event in self.cluster.events]
        return reasons, *(self.cluster.condition("gpt", kind)["status"] for kind in ("Created", "Running"))


@pytest.fixture
def process() -> OneProcess:
    return OneProcess()


async def test_a_gang_that_runs_soon_is_told_of_once(process: OneProcess) -> None:
    await process.create()
    before = process.cluster.writes
    assert await process.look() == pytest.approx(QUIET, abs=0.1)
    assert process.cluster.writes == before
    run_all(process.cluster)
    await process.look(after=2)
    assert process.told() == (["AllWorkersRunning"], "True", "True")
    assert process.cluster.writes == before + 2, "one patch and one event"


async def test_a_gang_that_takes_its_time_is_told_of_twice(process: OneProcess) -> None:
    await process.create()
    wait = await process.look()
    assert wait is not None
    await process.look(after=wait)
    assert process.told() == (["GangCreated"], "True", "False")
    run_all(process.cluster)
    await process.look()
    assert process.told() == (["GangCreated", "AllWorkersRunning"], "True", "True")


async def test_while_others_wait_small_news_wait_longer_but_not_for_ever(process: OneProcess) -> None:
    process.load = True
    await process.create()
    await process.look(after=QUIET * 2)
    assert process.told() == ([], "False", "False")
    await process.look(after=QUIET * QUIET_UNDER_LOAD)
    assert process.told() == (["GangCreated"], "True", "False")


async def test_what_a_person_should_mend_is_told_at_once(process: OneProcess) -> None:
    await process.create()
    waiting: Object = {"reason": "ImagePullBackOff", "message": "no such image"}
    process.cluster.objects["Pod", "gpt-0-1"]["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "trainer", "image": "a", "state": {"waiting": waiting}}],
    }
    await process.look()
    assert process.told() == (["GangCreated", "ImagePullFailed"], "True", "False")


async def test_a_new_process_tells_what_the_one_before_kept(process: OneProcess) -> None:
    await process.create()
    await process.operator.step()
    assert process.told() == (["GangCreated"], "True", "False")
