"""Pure: how long is left, from recent steps and what evaluations and saves have taken."""

from collections import deque
from statistics import median

RECENT = 50


class Estimate:
    """Seconds to the end at the recent median step time, with the evaluations and saves still to come."""

    def __init__(self, *, total_steps: int, evaluate_every: int, save_every: int) -> None:
        self.total_steps = total_steps
        self._every = {"evaluation": evaluate_every, "save": save_every}
        self._seconds: dict[str, float] = {}
        self._steps: deque[float] = deque(maxlen=RECENT)

    def step_took(self, seconds: float) -> None:
        self._steps.append(seconds)

    def pause_took(self, kind: str, seconds: float) -> None:
        """An `evaluation` or a `save`; the last one stands for those to come."""
        self._seconds[kind] = seconds

    def seconds_left(self, step: int) -> float | None:
        """After `step` steps; None before the first has been timed."""
        if step >= self.total_steps:
            return 0.0
        if not self._steps:
            return None
        pauses = sum(self._times(kind, step) * seconds for kind, seconds in self._seconds.items())
        return (self.total_steps - step) * median(self._steps) + pauses

    def _times(self, kind: str, step: int) -> int:
        every = self._every[kind]
        due = self.total_steps // every - step // every if every else 0
        # The last step is evaluated and saved whatever the interval
        return due + (0 if every and self.total_steps % every == 0 else 1)
