"""Whom a pod blames, as a table."""

import signal

import pytest
from dtj_api.progress import Failure
from dtj_trainer.clock import rfc3339
from dtj_trainer.launch.verdict import End, first_cause

KILL, TERM, ABORT = -signal.SIGKILL, -signal.SIGTERM, -signal.SIGABRT


def end(
    rank: int, status: int, time: float, *, told: bool = False, killed: bool = False, wrote_at: float | None = None
) -> End:
    """An end; with `wrote_at` the rank left a record of that time."""
    code = status if status > 0 else 128 - status
    record = None if wrote_at is None else Failure(rank, code, "Reason", f"rank {rank}", rfc3339(wrote_at))
    return End(rank, status, time, told, killed, record)


@pytest.mark.parametrize(
    ("ends", "blamed"),
    [
        ([end(0, 0, 1), end(1, 0, 2)], None),
        ([end(0, 0, 1), end(1, 3, 2)], 1),
        # its own reason beats a lost peer, whichever was seen first
        ([end(0, 201, 1, wrote_at=0.9), end(1, KILL, 2)], 1),
        ([end(0, 200, 1, wrote_at=0.9), end(1, 64, 2, wrote_at=1.9)], 1),
        ([end(0, 201, 1, wrote_at=0.9), end(1, 200, 2, wrote_at=1.9)], 1),
        # only lost peers: the first of them
        ([end(0, 201, 2, wrote_at=1.9), end(1, 201, 1, wrote_at=0.9)], 1),
        # what the supervisor did to them is nobody's reason
        ([end(0, 201, 1, wrote_at=0.9), end(1, TERM, 2, told=True), end(2, KILL, 3, told=True, killed=True)], 0),
        # dying of a kill when the supervisor told it: seen late, a cause all the same
        ([end(0, 201, 1, wrote_at=0.9), end(1, KILL, 2, told=True)], 1),
        ([end(0, 143, 2, told=True, wrote_at=1.5), end(1, 68, 1, wrote_at=0.9)], 1),
        # a failure of its own that came to light while being stopped
        ([end(0, 201, 1, wrote_at=0.9), end(1, 68, 2, told=True, wrote_at=0.8)], 1),
        # it wrote why, and hung until it was killed
        (
            [
                end(0, 201, 1, wrote_at=0.9),
                End(1, KILL, 2, True, True, Failure(1, 68, "StorageFull", "full", rfc3339(0.8))),
            ],
            1,
        ),
        # the order of records beats the order in which ends were seen
        ([end(0, 60, 1.0, wrote_at=0.9), end(1, 61, 1.5, wrote_at=0.5)], 1),
        # seen together: a kill is a cause, an exit or an abort may be its echo
        ([end(0, 1, 1), end(1, KILL, 1)], 1),
        ([end(0, ABORT, 1), end(1, -signal.SIGSEGV, 1)], 1),
        ([end(0, ABORT, 1), end(1, 1, 2)], 0),
    ],
)
def test_first_cause(ends: list[End], blamed: int | None) -> None:
    for order in (ends, ends[::-1]):
        cause = first_cause(order)
        assert (None if cause is None else cause.rank) == blamed


@pytest.mark.parametrize(
    ("status", "oom", "code", "reason", "words"),
    [
        (KILL, True, 137, "SIGKILL", "ran out of memory"),
        (KILL, None, 137, "SIGKILL", "most likely for want of memory"),
        (KILL, False, 137, "SIGKILL", "from outside"),
        (-signal.SIGSEGV, None, 139, "SIGSEGV", "killed by SIGSEGV"),
        (1, None, 1, "Error", "last log lines"),
        (7, None, 7, "ExitCode7", "exit code 7"),
        (65, None, 65, "DataNotFound", "DataNotFound"),
    ],
)
def test_words_for_a_rank_that_left_none(status: int, oom: bool | None, code: int, reason: str, words: str) -> None:
    cause = first_cause([End(5, status, 1.0, out_of_memory=oom)])
    assert cause is not None
    assert (cause.rank, cause.exit_code, cause.reason) == (5, code, reason)
    assert words in cause.message
    assert "rank 5" in cause.message


def test_record_of_another_ending_is_not_believed() -> None:
    record = Failure(0, 68, "StorageFull", "full", rfc3339(0.5))
    cause = first_cause([End(0, KILL, 1.0, record=record)])
    assert cause is not None
    assert cause.reason == "SIGKILL"
