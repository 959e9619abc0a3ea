"""The log: one JSON object a line on stdout, `time level rank event` first, names in camelCase. No torch."""

import json
import math
import sys
import time
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from dtj_api.fields import manifest_name

from dtj_trainer.clock import rfc3339

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Log:
    """A rank's log; `rank` None is the pod's supervisor."""

    rank: int | None
    stream: TextIO | None = None

    def info(self, event: str, **fields: Any) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        head: dict[str, Any] = {"time": rfc3339(time.time()), "level": level}
        head |= {"rank": self.rank} if self.rank is not None else {"source": "supervisor"}
        values = {manifest_name(name): _plain(value) for name, value in fields.items() if value is not None}
        # One write a line: the ranks of a pod share the pipe, and a short write to a pipe is not torn apart (PIPE_BUF)
        stream = self.stream or sys.stdout
        stream.write(json.dumps(head | {"event": event} | values) + "\n")
        stream.flush()


def _plain(value: Any) -> Any:
    """JSON has no NaN or infinity; floats are cut to what a reader can use."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)
