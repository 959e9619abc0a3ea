"""Where a job starts: what `checkpoint.resume` means for what is in the folder. Reads only; no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dtj_api.exit_codes import ExitCode

from dtj_trainer.checkpoint.layout import Manifest, folder_name, folder_step
from dtj_trainer.checkpoint.reader import TornCheckpoint, newest_first, newest_valid, verify
from dtj_trainer.errors import TrainerError

NAMED = 10


@dataclass(frozen=True)
class Start:
    """What to start from.

    Attributes:
        checkpoint: folder and manifest; None for step 0.
        skipped: newer ones that are torn, each with the reason.
        superseded: newer ones, whole or torn, that a later attempt must not find.
    """

    checkpoint: tuple[Path, Manifest] | None
    skipped: tuple[tuple[Path, str], ...] = ()
    superseded: tuple[Path, ...] = ()


def choose(directory: Path, resume: int | Literal["auto", "never"]) -> Start:
    """The start that `resume` asks for.

    Raises:
        TrainerError: CHECKPOINT_INVALID, the folder does not hold what `resume` needs, or cannot be read.
    """
    if resume == "auto":
        found = newest_valid(directory)
        return Start(found.newest, found.skipped)
    folders = list(newest_first(directory))
    if resume == "never":
        _refuse_any(directory, folders)
        return Start(None)
    folder = directory / folder_name(resume)
    try:
        manifest = verify(folder)
    except TornCheckpoint as error:
        problem = f"checkpoint {folder} is not whole: {error}" if folder in folders else f"there is no {folder}"
        remedy = 'name one of these, or "auto"' if folders else 'set "auto", or mount the volume that has it'
        words = f"spec.checkpoint.resume: {problem}; {directory} has {_steps(folders)}; {remedy}"
        raise TrainerError(ExitCode.CHECKPOINT_INVALID, words) from None
    newer = [each for each in folders if (folder_step(each.name) or 0) > resume]
    return Start((folder, manifest), superseded=tuple(newer))


def _refuse_any(directory: Path, folders: list[Path]) -> None:
    if folders:
        problem = f'"never", but {directory} has {_steps(folders)}'
        remedy = 'empty the folder, use another spec.checkpoint.subPath, or set "auto"'
        raise TrainerError(ExitCode.CHECKPOINT_INVALID, f"spec.checkpoint.resume: {problem}; {remedy}")


def _steps(folders: list[Path]) -> str:
    """`checkpoints of the steps 300, 200, 100`, the newest first and not too many."""
    if not folders:
        return "no checkpoints"
    steps = ", ".join(str(folder_step(folder.name)) for folder in folders[:NAMED])
    more = f" and {len(folders) - NAMED} older ones" if len(folders) > NAMED else ""
    return f"checkpoints of the steps {steps}{more}"
