"""What can end a trainer process, and the one place that turns an exception into exit code, reason and words."""

import errno
import traceback
from dataclasses import dataclass

from dtj_api.exit_codes import ExitCode
from dtj_api.fields import InvalidFields

# errno of a volume, or of its owner's share of it, that is full
FULL = (errno.ENOSPC, errno.EDQUOT)
CHECK_VOLUME = "check the volume and its permissions (the trainer does not run as root)"


class TrainerError(Exception):
    """An end the trainer understands: one sentence for the person who can mend it, and an exit code."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Explanation:
    """An exception in the words of a failure record. `trace` is set only where the cause may be a defect of ours."""

    code: ExitCode
    message: str
    trace: str | None = None

    @property
    def reason(self) -> str:
        return self.code.reason


def explain(error: BaseException) -> Explanation:
    """Every exception that leaves the trainer passes here once."""
    if isinstance(error, TrainerError):
        return Explanation(error.code, str(error))
    if isinstance(error, InvalidFields):
        return Explanation(ExitCode.INVALID_CONFIG, str(error))
    if isinstance(error, OSError) and error.errno in FULL:
        where = f" at {error.filename}" if error.filename else ""
        return Explanation(ExitCode.STORAGE_FULL, f"no space left{where}; use a larger volume")
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        remedy = "lower spec.training.batch or the model's dimensions, or give the container more memory"
        return Explanation(ExitCode.ERROR, f"out of memory: {_first_line(error)}; {remedy}")
    trace = "".join(traceback.format_exception(error))
    return Explanation(ExitCode.ERROR, f"{type(error).__name__}: {_first_line(error)}{_origin(error)}", trace)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


def _origin(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" (raised at {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
