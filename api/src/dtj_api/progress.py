"""What comes out of a pod: the progress record (HTTP) and the termination message (file), JSON in camelCase."""

import bisect
import dataclasses
import json
from dataclasses import dataclass
from typing import TypeVar

from dtj_api.fields import decode, encode

T = TypeVar("T")

TERMINATION_MESSAGE_PATH = "/dev/termination-log"
# The kubelet keeps 4,096 bytes of a container's message and cuts the rest.
TERMINATION_MESSAGE_LIMIT = 4096


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint that is complete on the volume.

    Attributes:
        step: optimizer steps done when it was taken.
        path: its folder, as the trainer sees it.
        saved_at: RFC 3339, UTC.
        bytes: size of all its files.
        checksum: sha256 of its weights file, hexadecimal.
        attempt: attempt that wrote it.
    """

    step: int
    path: str
    saved_at: str
    bytes: int
    checksum: str
    attempt: int = 0


@dataclass(frozen=True)
class Progress:
    """How far a run is; rank 0's view.

    Attributes:
        step: optimizer steps done, of `total_steps`.
        loss: training loss, mean over the ranks at the last logged step.
        eval_loss: validation loss at the last evaluation.
        samples_per_second: over all ranks, since the last logged step. `tokens_per_second` likewise, text only.
        mfu: part of the devices' peak that the model's own operations come to, where the peak is known.
        eta_seconds: time left at the recent median step time.
        first_step_time, last_step_time: RFC 3339, UTC.
    """

    step: int
    total_steps: int
    epoch: int = 0
    loss: float | None = None
    eval_loss: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    eta_seconds: float | None = None
    first_step_time: str | None = None
    last_step_time: str | None = None
    checkpoint: SavedCheckpoint | None = None


@dataclass(frozen=True)
class Failure:
    """Why a pod's ranks ended early: the first rank that ended for a reason of its own.

    Attributes:
        rank: global rank.
        exit_code: of that rank, 128 + n for signal n.
        reason: CamelCase, from exit_codes.
        message: for the person who can mend it; for an exception its last line and where it was raised.
        time: RFC 3339, UTC.
    """

    rank: int
    exit_code: int
    reason: str
    message: str
    time: str


@dataclass(frozen=True)
class TerminationMessage:
    """The last words of a pod."""

    progress: Progress | None = None
    failure: Failure | None = None


def to_json(record: Progress | TerminationMessage) -> str:
    """One line of JSON; a termination message is kept within what the kubelet keeps by cutting its failure's text."""
    text = json.dumps(encode(record), allow_nan=False)
    if len(text) <= TERMINATION_MESSAGE_LIMIT or not isinstance(record, TerminationMessage) or record.failure is None:
        return text
    failure = record.failure

    def cut(length: int) -> str:
        words = failure.message[:length] + " [cut]"
        shorter = dataclasses.replace(record, failure=dataclasses.replace(failure, message=words))
        return json.dumps(encode(shorter), allow_nan=False)

    lengths = range(len(failure.message))
    fitting = bisect.bisect_right(lengths, TERMINATION_MESSAGE_LIMIT, key=lambda length: len(cut(length)))
    return cut(max(0, fitting - 1))


def parse_progress(text: str) -> Progress:
    """Raises ValueError for anything that is not a progress record."""
    return _parse(Progress, text)


def parse_termination_message(text: str) -> TerminationMessage:
    """Raises ValueError for anything else: a container of the user's own writes what it likes."""
    return _parse(TerminationMessage, text)


def _parse(cls: type[T], text: str) -> T:
    return decode(cls, json.loads(text), "")
