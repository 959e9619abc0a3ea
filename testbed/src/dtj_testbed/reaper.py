"""A process that outlives its parent to clean up after it: kills the processes and removes the folder it was told of.

Run as `python reaper.py FOLDER`; reads process ids from standard input, one a line, and acts
when the input ends. That happens however the parent dies, by kill -9 too. An id with a minus is
of one that has ended: its number may be another's by then. Imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys


def main() -> None:
    processes: list[int] = []
    for line in sys.stdin:
        process = int(line)
        if process > 0:
            processes.append(process)
        else:
            processes.remove(-process)
    for process in reversed(processes):  # what was started last depends on the others
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)  # nothing of theirs is worth a graceful end
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
