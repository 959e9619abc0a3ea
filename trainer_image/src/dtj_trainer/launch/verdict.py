"""Pure: from the ends of a pod's ranks to the exit code of the pod and the failure to blame."""

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from dtj_api.exit_codes import ExitCode, describe, signal_name
from dtj_api.progress import Failure

from dtj_trainer.clock import from_rfc3339, rfc3339


@dataclass(frozen=True)
class End:
    """How one rank ended.

    Attributes:
        status: exit code, or -n for signal n (as subprocess has it).
        time: when the supervisor saw it, seconds since the epoch.
        told, killed: the supervisor had sent it SIGTERM, SIGKILL because another rank had failed.
        record: what the rank itself wrote about its failure.
        out_of_memory: the container's count of OOM kills had risen; None where it cannot be read.
    """

    rank: int
    status: int
    time: float
    told: bool = False
    killed: bool = False
    record: Failure | None = None
    out_of_memory: bool | None = None

    @property
    def exit_code(self) -> int:
        """128 + n for signal n. A rank that wrote why it fails and was then killed by us keeps its own."""
        if self.killed and self.record is not None:
            return self.record.exit_code
        return 128 - self.status if self.status < 0 else self.status


class Weight(IntEnum):
    """How likely an end is a consequence rather than the cause."""

    OWN = 0
    NO_RENDEZVOUS = 1
    PEER_LOST = 2
    TOLD = 3


def first_cause(ends: Iterable[End]) -> Failure | None:
    """The first rank that ended for a reason of its own; a rank that fell because of another only where there is none.

    Ordered by the time a rank wrote in its own record, else by the time its end was seen. Of ends seen together a kill
    comes before an exit: peers of a killed rank exit, and an abort may be a library's answer to a lost peer.
    """
    failed = [end for end in ends if end.status != 0]
    return failure(min(failed, key=_order)) if failed else None


def failure(end: End) -> Failure:
    """The rank's own record where it left one that fits its exit code; else what its exit status tells."""
    if end.record is not None and end.record.exit_code == end.exit_code:
        return end.record
    code = end.exit_code
    return Failure(end.rank, code, _reason(end), _words(end), rfc3339(end.time))


def _order(end: End) -> tuple[Weight, float, bool, int]:
    time = end.time
    if end.record is not None:
        time = min(time, from_rfc3339(end.record.time))
    killed = end.status < 0 and end.status != -signal.SIGABRT
    return _weight(end), time, not killed, end.rank


def _weight(end: End) -> Weight:
    code = end.exit_code
    if (end.told and code == ExitCode.STOPPED) or (end.killed and code == 128 + signal.SIGKILL):
        return Weight.TOLD
    if code == ExitCode.PEER_LOST:
        return Weight.PEER_LOST
    if code == ExitCode.RENDEZVOUS_FAILED:
        return Weight.NO_RENDEZVOUS
    return Weight.OWN


def _reason(end: End) -> str:
    if end.status < 0:
        return signal_name(128 - end.status) or f"ExitCode{end.exit_code}"
    return ExitCode(end.status).reason if end.status in list(ExitCode) else f"ExitCode{end.exit_code}"


def _words(end: End) -> str:
    if end.status >= 0:
        return f"rank {end.rank} ended with {describe(end.status)}; its last log lines say why"
    words = f"rank {end.rank} was killed by {_reason(end)}"
    if end.status != -signal.SIGKILL:
        return words
    remedy = "raise the container's memory limit, or lower the batch"
    if end.out_of_memory:
        return f"{words}: the container ran out of memory; {remedy}"
    if end.out_of_memory is None:
        return f"{words}, most likely for want of memory; {remedy}"
    return f"{words} from outside: the container's count of out-of-memory kills has not risen"
