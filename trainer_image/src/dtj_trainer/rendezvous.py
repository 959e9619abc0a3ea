"""How ranks find each other: worker 0's store, and who has come. Waits in short pieces, so that signals are heard."""

import socket
import time
from collections.abc import Callable
from datetime import timedelta

from dtj_api.exit_codes import ExitCode
from torch._C._distributed_c10d import Store, TCPStore

from dtj_trainer.errors import TrainerError
from dtj_trainer.observe.log import Log

RETRY_SECONDS = 0.1
SAY_SECONDS = 10.0


def open_store(*, address: str, port: int, rank: int, world_size: int, timeout: float, log: Log) -> Store:
    """The store on worker 0, once every rank has reached it.

    Raises:
        TrainerError: RENDEZVOUS_FAILED, naming what was waited for.
    """
    deadline = time.monotonic() + timeout
    if rank == 0:
        store = _host(address, port, timeout)
    else:
        _wait_for_address(address, port, deadline, timeout, log)
        store = _connect(address, port, deadline)
    _wait_for_all(store, rank, world_size, f"{address}:{port}", deadline, timeout, log)
    store.set_timeout(timedelta(seconds=timeout))
    return store


def _host(address: str, port: int, timeout: float) -> Store:
    try:
        # Its own client goes over the loopback: a pod's own headless name may not be in the DNS yet
        return TCPStore("localhost", port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout))
    except (RuntimeError, OSError) as error:
        problem = f"rank 0 cannot listen on port {port} for {address}: {_short(error)}"
        remedy = "is another process of this host using it?"
        raise TrainerError(ExitCode.RENDEZVOUS_FAILED, f"{problem}; {remedy}") from None


def _wait_for_address(address: str, port: int, deadline: float, timeout: float, log: Log) -> None:
    """Until something listens there. A pod's name may come into the DNS seconds after the pod."""
    trouble = ""

    def listening() -> bool:
        nonlocal trouble
        try:
            socket.create_connection((address, port), timeout=2.0).close()
        except OSError as error:
            trouble = str(error)
            return False
        return True

    def words() -> str:
        return f"rank 0 at {address}:{port} (MASTER_ADDR:MASTER_PORT): {trouble}"

    _until(listening, words, deadline, timeout, log)


def _connect(address: str, port: int, deadline: float) -> Store:
    remaining = timedelta(seconds=max(1.0, deadline - time.monotonic()))
    try:
        return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=remaining)
    except (RuntimeError, OSError) as error:
        problem = f"the store of rank 0 at {address}:{port} does not answer: {_short(error)}"
        raise TrainerError(ExitCode.RENDEZVOUS_FAILED, f"{problem}; its worker's log says why") from None


def _wait_for_all(
    store: Store, rank: int, world_size: int, where: str, deadline: float, timeout: float, log: Log
) -> None:
    def all_here() -> bool:
        return bool(store.add("dtj/joined", 0) >= world_size)

    def words() -> str:
        missing = [r for r in range(world_size) if not store.check([f"dtj/joined/{r}"])]
        listed = ", ".join(map(str, missing[:16])) + (" …" if len(missing) > 16 else "")
        return f"{len(missing)} of {world_size} ranks to reach {where}: {listed}"

    try:
        store.set(f"dtj/joined/{rank}", "1")
        store.add("dtj/joined", 1)
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
