"""Says what is being done, for how long already and about how much longer. Decides nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from dtj_testbed import paths

# Seconds on two cores, for the first run on a machine; afterwards its own durations are used.
FIRST_ESTIMATES: Mapping[str, float] = json.loads(Path(__file__).with_name("first_estimates.json").read_text())
PLAIN_INTERVAL = 30.0  # seconds between lines where the output is not a terminal


def duration(seconds: float) -> str:
    """`75` -> `1:15`."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


@dataclass
class Plan:
    """Steps by lane: steps of one lane follow each other, lanes run at the same time."""

    lanes: Sequence[Sequence[str]]
    estimates: Mapping[str, float]
    started: dict[str, float] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)

    def left(self, now: float) -> float:
        """Seconds until the longest lane is through."""
        return max((sum(self._left_of(s, now) for s in lane) for lane in self.lanes), default=0.0)

    def running(self) -> list[str]:
        return [step for step in self.started if step not in self.finished]

    def _left_of(self, step: str, now: float) -> float:
        if step in self.finished:
            return 0.0
        estimate = self.estimates.get(step, 30.0)
        if step not in self.started:
            return estimate
        elapsed = now - self.started[step]
        return max(estimate - elapsed, elapsed * 0.1)  # late: expect a tenth more, not nothing


class Progress:
    """Prints one line that moves (a terminal) or a line now and then (a log)."""

    def __init__(
        self,
        lanes: Sequence[Sequence[str]],
        *,
        out: TextIO = sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = Plan(lanes, {**FIRST_ESTIMATES, **_recorded()})
        self._out = out
        self._clock = clock
        self._begin = clock()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if any(self.plan.lanes):
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._ticker:
            self._ticker.join()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Run a step; its duration becomes the next run's estimate if it succeeds."""
        with self._lock:
            self.plan.started[name] = begin = self._clock()
            self._say(f"{name} …")
        yield
        with self._lock:
            self.plan.finished[name] = self._clock()
            took = self.plan.finished[name] - begin
            _record(name, took)
            self._say(f"{name}: done in {duration(took)}")

    def _tick(self) -> None:
        terminal = self._out.isatty()
        while not self._stop.wait(0.5 if terminal else PLAIN_INTERVAL):
            with self._lock:
                if not (running := self.plan.running()):
                    continue
                line = f"{self._times()} {', '.join(running)}"
                self._out.write(f"\r\x1b[K{line[:150]}" if terminal else f"{line}\n")
                self._out.flush()

    def _say(self, text: str) -> None:
        clear = "\r\x1b[K" if self._out.isatty() else ""
        self._out.write(f"{clear}{self._times()} {text}\n")
        self._out.flush()

    def _times(self) -> str:
        now = self._clock()
        elapsed, left = duration(now - self._begin), duration(self.plan.left(now))
        return f"[{elapsed}, about {left} left]"


def _history() -> Path:
    return paths.state_folder() / "durations.json"


def _recorded() -> dict[str, float]:
    try:
        return {str(k): float(v) for k, v in json.loads(_history().read_text()).items()}
    except (OSError, ValueError):
        return {}


def _record(name: str, seconds: float) -> None:
    if seconds < FIRST_ESTIMATES.get(name, 0.0) / 3:
        return  # most of it was there from an interrupted run
    durations = _recorded() | {name: round(seconds, 1)}
    temporary = _history().with_suffix(".new")
    temporary.write_text(json.dumps(durations, indent=1, sort_keys=True))
    temporary.replace(_history())
