"""One testbed command at a time on one cache; the others wait and say so."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dtj_testbed import paths


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the lock; it goes with the process, so a killed command leaves none behind."""
    path = paths.made(paths.cache_root()) / "lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            print(f"Waiting for another testbed command (process {file.read()}) …", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
