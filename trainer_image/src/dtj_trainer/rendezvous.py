"""How ranks find each other: worker 0's store, and who has come. Waits in short pieces, so that signals are heard.

An address may lead to the store of another attempt: a pod's IP is used again, a straggler looks for a rank 0 that has
been replaced. So each store says whose it is, and all other keys are under the token of the attempt.
"""

import socket
import time
from collections.abc import Callable
from datetime import timedelta

from dtj_api.exit_codes import ExitCode
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from dtj_trainer.attempt import Attempt
from dtj_trainer.errors import TrainerError
from dtj_trainer.observe.log import Log

RETRY_SECONDS = 0.1
SAY_SECONDS = 10.0
# The one key outside the prefix: the token of the attempt whose store it is
TOKEN = "dtj/token"


def open_store(
    *, address: str, port: int, rank: int, world_size: int, attempt: Attempt, timeout: float, log: Log
) -> Store:
    """The store on worker 0, for this attempt alone, once every rank has reached it.

    Raises:
        TrainerError: RENDEZVOUS_FAILED, naming what was waited for, or that a newer attempt is there.
    """
    deadline = time.monotonic() + timeout
    if rank == 0:
        shared = _host(address, port, timeout)
        shared.set(TOKEN, attempt.token)
    else:
        shared = _reach(address, port, attempt, deadline, timeout, log)
    store = PrefixStore(f"dtj/{attempt.token}", shared)
    _wait_for_all(store, rank, world_size, f"{address}:{port}", deadline, timeout, log)
    store.set_timeout(timedelta(seconds=timeout))
    return store


def _host(address: str, port: int, timeout: float) -> TCPStore:
    try:
        # Its own client goes over the loopback: a pod's own headless name may not be in the DNS yet
        return TCPStore("localhost", port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout))
    except (RuntimeError, OSError) as error:
        problem = f"rank 0 cannot listen on port {port} for {address}: {_short(error)}"
        remedy = "is another process of this host using it?"
        raise TrainerError(ExitCode.RENDEZVOUS_FAILED, f"{problem}; {remedy}") from None


def _reach(address: str, port: int, attempt: Attempt, deadline: float, timeout: float, log: Log) -> TCPStore:
    """The store there, once it is this attempt's. A pod's name may come into the DNS seconds after the pod, and an
    older attempt's store may be there before this one's."""
    where = f"{address}:{port}"
    reached: list[TCPStore] = []
    trouble = ""

    def ours() -> bool:
        nonlocal trouble
        try:
            store = _connect(address, port, deadline)
            # Between the first moment it listens and this key there is nothing to know
            token = store.get(TOKEN).decode() if store.check([TOKEN]) else None
        except (RuntimeError, OSError) as error:
            trouble = _short(error)
            return False
        if token == attempt.token:
            reached.append(store)
            return True
        other = Attempt.of_token(token or "")
        if other.replaces(attempt):
            problem = f"the store at {where} is of attempt {other.number}, which has replaced attempt {attempt.number}"
            raise TrainerError(ExitCode.RENDEZVOUS_FAILED, f"{problem}: see the pods of attempt {other.number}")
        trouble = (
            "the store there does not say yet whose it is"
            if token is None
            else "the store there is of another job or an older attempt"
        )
        return False

    def words() -> str:
        return f"rank 0 at {where} (MASTER_ADDR:MASTER_PORT): {trouble}"

    _until(ours, words, deadline, timeout, log)
    return reached[0]


def _connect(address: str, port: int, deadline: float) -> TCPStore:
    """Raises OSError or RuntimeError. The store's own client is asked only where something listens: it waits long."""
    socket.create_connection((address, port), timeout=2.0).close()
    remaining = timedelta(seconds=max(1.0, deadline - time.monotonic()))
    return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=remaining)


def _wait_for_all(
    store: Store, rank: int, world_size: int, where: str, deadline: float, timeout: float, log: Log
) -> None:
    def all_here() -> bool:
        return bool(store.add("joined", 0) >= world_size)

    def words() -> str:
        missing = [r for r in range(world_size) if not store.check([f"joined/{r}"])]
        listed = ", ".join(map(str, missing[:16])) + (" …" if len(missing) > 16 else "")
        return f"{len(missing)} of {world_size} ranks to reach {where}: {listed}"

    try:
        store.set(f"joined/{rank}", "1")
        store.add("joined", 1)
        _until(all_here, words, deadline, timeout, log)
    except RuntimeError as error:
        problem = f"lost the store of rank 0 at {where}: {_short(error)}"
        raise TrainerError(ExitCode.RENDEZVOUS_FAILED, f"{problem}; its worker's log says why") from None


def _until(done: Callable[[], bool], words: Callable[[], str], deadline: float, timeout: float, log: Log) -> None:
    """Ask until it is so, saying now and then what is waited for."""
    say_at = time.monotonic() + 1.0
    while not done():
        now = time.monotonic()
        if now >= deadline:
            problem = f"waited {timeout:g} s (spec.training.timeoutSeconds) in vain for {words()}"
            raise TrainerError(ExitCode.RENDEZVOUS_FAILED, f"{problem}; see those workers' pods and logs")
        if now >= say_at:
            log.info("waiting", waiting_for=words(), seconds_left=round(deadline - now))
            say_at = now + SAY_SECONDS
        time.sleep(min(RETRY_SECONDS, max(0.0, deadline - now)))


def _short(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
