"""Ranks of several attempts at one address: real stores on the loopback."""

import gc
import io
import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.attempt import Attempt
from dtj_trainer.errors import TrainerError
from dtj_trainer.observe.log import Log

from tests.trainer.conftest import free_port

pytestmark = pytest.mark.torch

LONG = 100.0
Join = Callable[..., Future[Any]]


def attempt(number: int, job: str = "6f1c-77") -> Attempt:
    return Attempt(number, f"{job}-{number}")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def join(port: int) -> Iterator[Join]:
    """join(ATTEMPT, RANK): one of two ranks looks for the other, in a thread."""
    from dtj_trainer.rendezvous import open_store

    with ThreadPoolExecutor(8) as threads:

        def start(one: Attempt, rank: int, timeout: float = LONG, stream: io.StringIO | None = None) -> Future[Any]:
            log = Log(rank, stream or io.StringIO())
            place = {"address": "localhost", "port": port, "rank": rank, "world_size": 2}
            return threads.submit(open_store, **place, attempt=one, timeout=timeout, log=log)

        yield start


def foreign_store(port: int, token: str | None) -> Any:
    """The store of somebody else."""
    from dtj_trainer.rendezvous import TOKEN
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore("localhost", port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=5))
    if token is not None:
        store.set(TOKEN, token)
    return store


def failure(rank: Future[Any]) -> str:
    error = rank.exception(LONG)
    assert isinstance(error, TrainerError)
    assert error.code == ExitCode.RENDEZVOUS_FAILED
    return str(error)


class Lines(io.StringIO):
    """A log to wait on."""

    def __init__(self) -> None:
        super().__init__()
        self._written: queue.Queue[str] = queue.Queue()

    def write(self, text: str) -> int:
        self._written.put(text)
        return len(text)

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + LONG
        while words not in self._written.get(timeout=max(0.0, deadline - time.monotonic())):
            pass


@pytest.mark.parametrize("one", [attempt(3), Attempt()], ids=["attempt", "by hand"])
def test_ranks_of_one_attempt_meet(join: Join, one: Attempt) -> None:
    first, second = join(one, 0), join(one, 1)
    first.result(LONG).set("word", "from rank 0")
    assert second.result(LONG).get("word") == b"from rank 0"


def test_straggler_ends_at_once_at_the_newer_attempts_store_and_is_not_counted(join: Join) -> None:
    host = join(attempt(1), 0)
    words = failure(join(attempt(0), 1))
    assert "is of attempt 1, which has replaced attempt 0" in words
    assert "see the pods of attempt 1" in words
    assert not host.done()
    join(attempt(1), 1).result(LONG)
    assert host.result(LONG)


def test_keys_of_another_attempt_are_never_seen(join: Join, port: int) -> None:
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    host = join(attempt(1), 0, timeout=2.0)
    shared = TCPStore("localhost", port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=30))
    for number in (0, 10, 12):
        PrefixStore(f"dtj/{attempt(number).token}", shared).add("joined", 2)
    shared.add("joined", 2)
    assert "1 of 2 ranks to reach localhost:" in failure(host)


@pytest.mark.parametrize(
    ("token", "words"),
    [(attempt(0).token, "of another job or an older attempt"), (None, "does not say yet whose it is")],
)
def test_new_rank_waits_for_its_own_store_where_another_is(
    join: Join, port: int, token: str | None, words: str
) -> None:
    other, log = foreign_store(port, token), Lines()
    rank = join(attempt(1), 1, stream=log)
    log.wait_for(words)
    del other
    gc.collect()
    host = join(attempt(1), 0)
    assert rank.result(LONG)
    assert host.result(LONG)


def test_store_of_another_job_is_waited_out_and_named(join: Join, port: int) -> None:
    other = foreign_store(port, attempt(9, job="bbbb").token)
    words = failure(join(attempt(0), 1, timeout=0.5))
    assert f"rank 0 at localhost:{port} (MASTER_ADDR:MASTER_PORT): the store there is of another job" in words
    del other
