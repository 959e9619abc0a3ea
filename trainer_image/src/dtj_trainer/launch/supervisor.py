"""The watch over one pod's ranks: start, forward signals, reap, end the rest when one fails. No torch, no HTTP."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence

from dtj_api.environment import Gang
from dtj_api.exit_codes import ExitCode

from dtj_trainer.launch.container import oom_kills, processors
from dtj_trainer.launch.verdict import End
from dtj_trainer.run_folder import RunFolder

# From SIGTERM to SIGKILL for ranks whose peer has failed. They may be inside a collective, where no Python signal
# handler runs, and cannot save without their peer; but rank 0 may be in the middle of a save it can finish.
GRACE_SECONDS = 5.0


class Signals:
    """SIGTERM, SIGINT and SIGCHLD as a queue that one can wait on; nothing runs in a handler."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float | None) -> list[int]:
        """Signals that have come, or [] after so many seconds."""
        ready, _, _ = select.select([self._reader], [], [], seconds)
        return list(self._reader.recv(4096)) if ready else []


class Supervisor:
    """One pod's ranks from start to end."""

    def __init__(
        self, *, gang: Gang, command: Sequence[str], environ: Mapping[str, str], run: RunFolder, signals: Signals
    ) -> None:
        self.gang = gang
        self.command = list(command)
        self.environ = environ
        self.run = run
        self.signals = signals
        self.stopping = False
        self.ends: list[End] = []
        self._ranks: dict[int, int] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._kill_at: float | None = None
        self._killed = False
        self._oom_kills = oom_kills()

    def start(self) -> None:
        """Start every rank of the pod, each in a process group of its own so that its helpers can be ended with it."""
        threads = max(1, processors() // self.gang.processes)
        shared = (
            {"OMP_NUM_THREADS": str(threads)}
            | self.gang.pod_environment()
            | dict(self.environ)
            | self.run.environment()
        )
        for local_rank in range(self.gang.processes):
            environ = shared | self.gang.rank_environment(local_rank)
            process = subprocess.Popen(self.command, env=environ, process_group=0)
            self._processes.append(process)
            self._ranks[process.pid] = self.gang.rank(local_rank)

    def alive(self) -> int:
        """Ranks that are running."""
        return len(self._ranks)

    def processes(self) -> list[int]:
        """Process ids of the ranks, in the order of their numbers, as started."""
        return [process.pid for process in self._processes]

    def watch(self) -> list[End]:
        """Until every rank has ended. Returns how each did, in the order seen."""
        while self._ranks:
            for number in self.signals.wait(self._patience()):
                if number != signal.SIGCHLD:
                    self.stopping = True
                    self._signal_all(signal.Signals(number))
            self._reap()
            self._end_the_rest()
        return self.ends

    def _patience(self) -> float | None:
        return None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())

    def _reap(self) -> None:
        """Every child that has ended; as PID 1 also orphans that are none of ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            rank = self._ranks.pop(pid, None)
            if rank is not None:
                self._note(rank, os.waitstatus_to_exitcode(status))
                # Data-loading helpers of a rank that was killed would live on
                _signal_group(pid, signal.SIGKILL)

    def _note(self, rank: int, status: int) -> None:
        before, after = self._oom_kills, oom_kills()
        risen = None if before is None or after is None else after > before
        told = self._kill_at is not None
        record = self.run.read_failure(rank)
        self.ends.append(End(rank, status, time.time(), told, self._killed, record, risen))

    def _end_the_rest(self) -> None:
        """One rank's failure ends the pod's others: half a gang cannot train."""
        if self._kill_at is None:
            if any(self._is_failure(end) for end in self.ends):
                self._signal_all(signal.SIGTERM)
                self._kill_at = time.monotonic() + GRACE_SECONDS
        elif time.monotonic() >= self._kill_at:
            self._signal_all(signal.SIGKILL)
            self._killed = True
            self._kill_at = time.monotonic() + GRACE_SECONDS

    def _is_failure(self, end: End) -> bool:
        """While the pod is being stopped a rank that stops is no failure: rank 0 may still be saving."""
        return end.status != 0 and not (self.stopping and end.exit_code == ExitCode.STOPPED)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._ranks:
            if number == signal.SIGKILL:
                _signal_group(pid, number)
            else:
                os.kill(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def rank_command(arguments: Sequence[str], python: str) -> list[str]:
    """What each rank runs: the built-in trainer, or the user's `script.py args…` or `-m module args…`.

    >>> rank_command(["-m", "mine", "--fast"], "python")
    ['python', '-m', 'mine', '--fast']
    """
    return [python, *(arguments or ["-m", "dtj_trainer"])]
