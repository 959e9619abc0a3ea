"""One pod of a test: a real `dtj-launch` with its log read line by line. Waits on conditions with a deadline."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from dtj_api.progress import TerminationMessage, parse_termination_message

DEADLINE = 150.0


class Pod:
    """Started by the constructor. `lines` holds the log read so far; what is not JSON is kept as {"text": ...}."""

    def __init__(self, folder: Path, *command: str, **environ: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.scratch = folder / "tmp"
        self.scratch.mkdir()
        self.termination_log = folder / "termination-log"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DTJ_", "PROMETHEUS_", "OMP_"))}
        own = {"TMPDIR": self.scratch, "DTJ_METRICS_PORT": 0, "DTJ_TERMINATION_LOG": self.termination_log}
        self.process = subprocess.Popen(
            command or (sys.executable, "-m", "dtj_trainer.launch"),
            env=inherited | {name: str(value) for name, value in (own | environ).items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[dict[str, Any]] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, event: str, **fields: object) -> dict[str, Any]:
        """The first line of that event with these fields, read already or yet to come."""
        deadline = time.monotonic() + DEADLINE
        seen = 0
        while True:
            for line in self.lines[seen:]:
                if line.get("event") == event and all(line.get(k) == v for k, v in fields.items()):
                    return line
            seen = len(self.lines)
            if not self._next(deadline):
                raise AssertionError(f"ended without {event} {fields}:\n{self.text()}")

    def wait(self) -> int:
        """Its exit code, once all it wrote has been read."""
        deadline = time.monotonic() + DEADLINE
        while self._next(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("event") == name]

    def text(self) -> str:
        return "\n".join(line.get("text") or json.dumps(line) for line in self.lines)

    def last_words(self) -> TerminationMessage:
        return parse_termination_message(self.termination_log.read_text())

    def pid(self, rank: int) -> int:
        started = self.wait_for("started")
        return int(started["processes"][started["ranks"].index(rank)])

    def kill(self, number: signal.Signals = signal.SIGTERM, rank: int | None = None) -> None:
        os.kill(self.process.pid if rank is None else self.pid(rank), number)

    def get(self, path: str) -> tuple[int, str]:
        port = self.wait_for("serving")["metricsPort"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def end(self) -> None:
        """For a test that failed in the middle: nothing is left running."""
        if self.process.poll() is None:
            for line in self.events("started"):
                for pid in line["processes"]:
                    _kill_group(pid)
            self.process.kill()
            self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line)
        self._queue.put(None)

    def _next(self, deadline: float) -> bool:
        """Read one more line; False at the end."""
        try:
            line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise AssertionError(f"nothing for {DEADLINE:g} s:\n{self.text()}") from None
        if line is None:
            self._queue.put(None)
            return False
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        self.lines.append(value if isinstance(value, dict) else {"text": line.rstrip("\n")})
        return True


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
