"""What a trainer process says by its exit code. 1-127: the same run would fail again; 128-255: another may succeed."""

import signal
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the trainer and of the pod's supervisor."""

    SUCCESS = 0
    ERROR = 1
    INVALID_CONFIG = 64
    DATA_NOT_FOUND = 65
    CHECKPOINT_MISMATCH = 66
    CHECKPOINT_INVALID = 67
    STORAGE_FULL = 68
    DIVERGED = 69
    STOPPED = 128 + signal.SIGTERM
    RENDEZVOUS_FAILED = 200
    PEER_LOST = 201
    FENCED = 202

    @property
    def reason(self) -> str:
        """CamelCase form, as used in conditions and events: `StorageFull`."""
        return self.name.title().replace("_", "")


def signal_name(code: int) -> str | None:
    """The signal behind exit code 128 + n, where there is one.

    >>> signal_name(137), signal_name(3)
    ('SIGKILL', None)
    """
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return None


def describe(code: int) -> str:
    """A person's words for any exit code of a container.

    >>> describe(137)
    'killed by SIGKILL'
    """
    if code in list(ExitCode):
        return ExitCode(code).reason
    name = signal_name(code)
    return f"killed by {name}" if name else f"exit code {code}"
