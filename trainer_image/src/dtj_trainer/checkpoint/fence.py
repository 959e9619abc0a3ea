"""Who may write to a checkpoint folder: the attempt that began there last, as `attempt.json` records. No torch.

A process may be frozen at any point and go on after a newer attempt has begun, and no lock outlives that on every kind
of volume. So whoever writes looks before each step that others can see, and once more after it, to take it back.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from dtj_api.exit_codes import ExitCode

from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import disk
from dtj_trainer.checkpoint.layout import ATTEMPT
from dtj_trainer.checkpoint.reader import unreadable
from dtj_trainer.clock import rfc3339
from dtj_trainer.errors import TrainerError


@dataclass(frozen=True)
class Record:
    """What `attempt.json` says.

    Attributes:
        time: when the attempt began, RFC 3339.
        started: this attempt, or one of the same job before it, has found the checkpoint to start from.
    """

    attempt: Attempt
    time: str
    started: bool = False


class Fence:
    """One attempt's claim to a folder. Without a rendezvous token there is none: nothing is recorded or refused."""

    def __init__(self, directory: Path, attempt: Attempt) -> None:
        self.attempt = attempt
        self.started = attempt.number > 0
        self._directory = directory
        self._path = directory / ATTEMPT

    def claim(self) -> str | None:
        """Record this attempt as the newest. Returns a warning where the record before it could not be understood.

        Raises:
            TrainerError: FENCED, a newer attempt of this job has begun; CHECKPOINT_INVALID, the record cannot be read.
            OSError: it cannot be written.
        """
        if not self.attempt.token:
            return None
        before = self._read()
        damaged = before is None and self._path.exists()
        self.started = before is not None and before.attempt.job == self.attempt.job and before.started
        self._record(self._refuse_newer)
        return f"{self._path} is not a record of an attempt; it was replaced" if damaged else None

    def mark_started(self) -> None:
        """Record that this job has found its start, and goes on from its own checkpoints from now on.

        Raises as `check` and `claim` do.
        """
        if self.attempt.token and not self.started:
            self.started = True
            self._record(self._refuse_other)

    def check(self) -> None:
        """Look whether the folder is still this attempt's; a record that is gone or damaged takes nothing away.

        Raises:
            TrainerError: FENCED; CHECKPOINT_INVALID, the record cannot be read.
        """
        if self.attempt.token:
            self._refuse_other(self._read())

    def _record(self, refuse: Callable[[Record | None], None]) -> None:
        # Under no name that another attempt sweeps away
        temporary = self._path.with_name(f".{ATTEMPT}-{uuid4().hex}")
        body = {"attempt": self.attempt.number, "token": self.attempt.token, "time": rfc3339(time.time())}
        try:
            disk.write_text(temporary, json.dumps(body | {"started": self.started}) + "\n")
            refuse(self._read())
            temporary.rename(self._path)
            disk.sync_folder(self._directory)
        finally:
            temporary.unlink(missing_ok=True)

    def _read(self) -> Record | None:
        try:
            return _parse(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise unreadable(self._path, error) from None

    def _refuse_newer(self, record: Record | None) -> None:
        if record is not None and record.attempt.replaces(self.attempt):
            raise self._fenced(record)

    def _refuse_other(self, record: Record | None) -> None:
        if record is not None and record.attempt != self.attempt:
            raise self._fenced(record)

    def _fenced(self, record: Record) -> TrainerError:
        other, where = record.attempt, f"checkpoint folder {self._directory}"
        if other.job == self.attempt.job:
            problem = f"attempt {other.number} of this job has it since {record.time}"
            remedy = f"attempt {self.attempt.number} writes nothing more: see the pods of attempt {other.number}"
        else:
            problem = f"another job has it since {record.time} (token {other.token})"
            remedy = "nothing more is written; give each job a volume or a spec.checkpoint.subPath of its own"
        return TrainerError(ExitCode.FENCED, f"{where}: {problem}; {remedy}")


def _parse(text: str) -> Record:
    """Raises ValueError."""
    raw = json.loads(text)
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    number, token, began = raw.get("attempt"), raw.get("token"), raw.get("time")
    if type(number) is not int or not isinstance(token, str) or not isinstance(began, str) or not token:
        raise ValueError("not a record of an attempt")
    return Record(Attempt(number, token), began, raw.get("started") is True)
