"""SIGTERM and SIGINT: a wish to stop, which the loop grants at a step's end. No torch."""

import ctypes
import signal
from collections.abc import Callable
from types import FrameType

PR_SET_PDEATHSIG = 1


def stop_with_parent() -> None:
    """Have the kernel send SIGTERM when the supervisor dies (prctl(2), Linux): no rank trains on unseen.

    Never fails: elsewhere than on Linux a rank simply outlives it.
    """
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (OSError, AttributeError):
        return


class StopRequest:
    """`requested` is raised by the first signal; later ones change nothing.

    Until `defer` is called there is nothing worth saving, and a signal ends the process at once through `leave`.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self.requested = False
        self._leave: Callable[[], None] | None = leave

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._received)

    def defer(self) -> None:
        """From here on a signal only raises the flag."""
        self._leave = None

    def _received(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        if self._leave is not None:
            self._leave()
