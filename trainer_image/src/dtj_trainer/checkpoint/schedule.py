"""When a checkpoint is due. Pure: the clock is passed in."""

import time
from collections.abc import Callable

from dtj_api.spec import CheckpointPolicy


class Schedule:
    """By steps, which every rank counts alike; and by rank 0's clock, of which the others must be told."""

    def __init__(self, policy: CheckpointPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps, self._seconds, self._clock = policy.every_steps, policy.every_seconds, clock
        self._since = clock()

    def due(self, step: int) -> bool:
        """Whether this step ends an interval of `everySteps`."""
        return step % self._steps == 0

    def late(self) -> bool:
        """Whether the last save, or the start of training, is `everySeconds` old."""
        return self._seconds is not None and self._clock() - self._since >= self._seconds

    def restart(self) -> None:
        """Training starts, or a save has ended."""
        self._since = self._clock()
