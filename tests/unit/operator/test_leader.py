"""leader.py: one lease, several operators, each with a clock of its own."""

import copy

import pytest
from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from dtj_operator.leader import HOLD, Leadership, LeaseLost

LEASE_SECONDS = 15.0
HOLD_SECONDS = LEASE_SECONDS * HOLD


class Leases(Cluster):
    """One lease in memory."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.down: ApiError | None = None

    async def get_lease(self, namespace: str, name: str) -> Object:
        if self.down:
            raise self.down
        if self.lease is None:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(self.lease)

    async def create_lease(self, lease: Object) -> None:
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        self._store(lease)

    async def replace_lease(self, lease: Object) -> None:
        if self.down:
            raise self.down
        if lease["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "")
        self._store(lease)

    def _store(self, lease: Object) -> None:
        self.version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self.version)

    @property
    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Candidate(Leadership):
    def __init__(self, leases: Leases, name: str, begins_at: float = 0.0) -> None:
        self.clock = Clock(begins_at)
        super().__init__(leases, "dtj-system", "dtj", name, LEASE_SECONDS, self.clock)

    async def looks(self) -> bool:
        return await self._try()


async def test_the_first_takes_the_lease_and_keeps_it_by_renewing() -> None:
    leases = Leases()
    # clocks that have nothing to do with each other
    one, other = Candidate(leases, "one", 1000.0), Candidate(leases, "other", 5.0)
    assert await one.looks()
    assert one.held
    for _ in range(20):
        assert not await other.looks()
        for each in (one, other):
            each.clock.now += 2
        assert await one.looks()
        assert one.held
        assert not other.held
    assert leases.holder == "one"


async def test_a_lost_holder_is_followed_once_its_lease_was_still_for_its_whole_duration() -> None:
    leases = Leases()
    one, other = Candidate(leases, "one"), Candidate(leases, "other")
    await one.looks()
    await other.looks()
    other.clock.now += LEASE_SECONDS
    assert not await other.looks()
    other.clock.now += 1
    assert await other.looks()
    assert leases.holder == "other"
    assert leases.lease is not None
    assert leases.lease["spec"]["leaseTransitions"] == 1


async def test_a_holder_that_was_paused_may_not_write_when_it_wakes_up() -> None:
    leases = Leases()
    one, other = Candidate(leases, "one"), Candidate(leases, "other")
    await one.looks()
    one.clock.now += HOLD_SECONDS
    assert not one.held, "before another may think it gone"
    assert HOLD_SECONDS < LEASE_SECONDS
    await other.looks()
    other.clock.now += LEASE_SECONDS + 1
    await other.looks()
    one.clock.now += LEASE_SECONDS
    assert not await one.looks()
    with pytest.raises(LeaseLost):
        await one.keep()
    assert leases.holder == "other"


async def test_of_two_that_want_the_same_lease_one_gets_it() -> None:
    leases = Leases()
    gone, one, other = (Candidate(leases, name) for name in ("gone", "one", "other"))
    await gone.looks()
    await one.looks()
    await other.looks()
    read = await leases.get_lease("", "")
    for each in (one, other):
        each.clock.now += LEASE_SECONDS + 1
    assert await one.looks()
    # as if it had read before the other wrote
    leases.get_lease = lambda *_: _answer(read)  # type: ignore[method-assign]
    assert not await other.looks()
    assert not other.held


async def _answer(lease: Object) -> Object:
    return lease


async def test_an_api_server_that_is_away_for_a_moment_costs_nothing() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.looks()
    leases.down = Unavailable(0, "Unreachable", "")
    one.clock.now += HOLD_SECONDS - 1
    assert not await one.looks()
    assert one.held
    leases.down = None
    assert await one.looks()
    one.clock.now += HOLD_SECONDS - 1
    assert one.held


async def test_a_lease_that_was_given_back_is_free_at_once() -> None:
    leases = Leases()
    one, other = Candidate(leases, "one"), Candidate(leases, "other")
    await one.looks()
    assert not await other.looks()
    await one.release()
    assert not one.held
    assert await other.looks()
    await one.release()
    assert leases.holder == "other"
