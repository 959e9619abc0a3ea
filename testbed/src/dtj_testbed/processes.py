"""Background processes of a test fixture: started together, watched, and gone when the fixture is."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dtj_testbed import shell
from dtj_testbed.errors import TestbedError


class Reaper:
    """Ends processes, and removes a folder, when this process dies, in whatever way, or closes it."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", Path(__file__).with_name("reaper.py"), folder],
            stdin=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def watch(self, process: int) -> None:
        self._tell(process)

    def forget(self, process: int) -> None:
        """One that has ended."""
        self._tell(-process)

    def close(self) -> None:
        """Begin; `wait` for the end."""
        if self._process.stdin:
            self._process.stdin.close()

    def wait(self) -> None:
        self._process.wait()

    def _tell(self, number: int) -> None:
        if self._process.stdin:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()


class ProcessGroup:
    """A temporary folder and the processes that live in it; both vanish with us, even after kill -9."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"dtj-{name}-"))
        self._reaper = Reaper(self.folder)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Start a process that logs to `<folder>/<name>.log`; it inherits our environment where it is given none."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment,
            )  # fmt: skip
        self._running[name] = process
        self._reaper.watch(process.pid)

    def stop(self, name: str) -> None:
        """Kill one process at once, as a crash would."""
        process = self._running.pop(name)
        process.kill()
        process.wait()
        self._reaper.forget(process.pid)

    def wait_until(self, what: str, ready: Callable[[], bool], *, deadline: float = 60) -> None:
        """Poll until `ready`.

        Raises:
            TestbedError: a process ended, or `deadline` seconds passed; with the ends of the logs.
        """
        end = time.monotonic() + deadline
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise TestbedError(f"{what}: not ready after {deadline:.0f} s\n{self.logs()}")
            time.sleep(0.05)

    def check(self) -> None:
        """
        Raises:
            TestbedError: a process ended; with the ends of the logs.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                raise TestbedError(f"{name} ended (exit code {process.returncode})\n{self.logs()}")

    def pids(self) -> dict[str, int]:
        """Process ids of what was started, by name."""
        return {name: process.pid for name, process in self._running.items()}

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def logs(self) -> str:
        """The end of every process's log."""
        return "\n".join(f"--- {n}\n{shell.tail(self.log(n), 15)}" for n in self._running)

    def close(self) -> None:
        """End everything and wait until it has ended."""
        self._reaper.close()
        for process in self._running.values():
            process.wait()  # the reaper kills them; we are their parent and must collect them
        self._reaper.wait()


def free_ports(count: int) -> list[int]:
    """Loopback ports nobody listens on right now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
