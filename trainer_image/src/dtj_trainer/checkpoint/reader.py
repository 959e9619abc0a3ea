"""Finding and checking checkpoints: the newest valid one wins. Reads only; no torch."""

import errno
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dtj_api.exit_codes import ExitCode

from dtj_trainer.checkpoint.layout import MANIFEST, MODEL, FileRecord, Manifest, UnknownFormat, folder_step, parse
from dtj_trainer.errors import CHECK_VOLUME, TrainerError

BLOCK = 1 << 20


class TornCheckpoint(Exception):
    """A folder that is not the checkpoint it claims to be; says why."""


@dataclass(frozen=True)
class Found:
    """What a checkpoint folder holds.

    Attributes:
        newest: the newest valid checkpoint; None where there is none.
        skipped: newer ones that are not valid, each with the reason.
    """

    newest: tuple[Path, Manifest] | None
    skipped: tuple[tuple[Path, str], ...]


def newest_valid(directory: Path) -> Found:
    """Look from the newest on; older ones than the first valid are not looked at.

    Raises:
        TrainerError: CHECKPOINT_INVALID, the folder cannot be read, or another version wrote the newest valid one.
    """
    skipped: list[tuple[Path, str]] = []
    for folder in newest_first(directory):
        try:
            return Found((folder, verify(folder)), tuple(skipped))
        except TornCheckpoint as error:
            skipped.append((folder, str(error)))
    return Found(None, tuple(skipped))


def newest_first(directory: Path) -> Iterator[Path]:
    """Checkpoint folders by name; nothing is said about what is in them. Raises TrainerError."""
    try:
        folders = [path for path in directory.iterdir() if folder_step(path.name) is not None]
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise unreadable(directory, error) from None
    return iter(sorted(folders, key=lambda path: folder_step(path.name) or 0, reverse=True))


def verify(folder: Path) -> Manifest:
    """The manifest of a folder whose every file has the size and checksum it records.

    Raises:
        TornCheckpoint: it is not whole.
        TrainerError: CHECKPOINT_INVALID, it cannot be read here, whole or not.
    """
    try:
        manifest = parse((folder / MANIFEST).read_text())
        if manifest.step != folder_step(folder.name):
            raise TornCheckpoint(f"its manifest is of step {manifest.step}")
        for name, record in manifest.files.by_name().items():
            _verify_file(folder / name, record)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TornCheckpoint(f"it has no {Path(error.filename).name}") from None
    except UnknownFormat as error:
        remedy = "use the trainer image that wrote it, or another checkpoint folder"
        raise TrainerError(ExitCode.CHECKPOINT_INVALID, f"checkpoint {folder}: {error}; {remedy}") from None
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise TornCheckpoint("it was removed while it was read") from None
        raise unreadable(folder, error) from None
    except ValueError:
        raise TornCheckpoint(f"its {MANIFEST} is damaged") from None
    return manifest


def locate(path: Path) -> tuple[Path, Manifest]:
    """The checkpoint at `path`: one checkpoint's folder, or a folder of them (the newest valid wins).

    Raises:
        TrainerError: CHECKPOINT_INVALID.
    """
    if (path / MANIFEST).exists() or (path / MODEL).exists():
        try:
            return path, verify(path)
        except TornCheckpoint as error:
            raise TrainerError(ExitCode.CHECKPOINT_INVALID, f"checkpoint {path} is not whole: {error}") from None
    found = newest_valid(path)
    if found.newest is None:
        torn = "; ".join(f"{folder}: {reason}" for folder, reason in found.skipped)
        problem = f"{path} holds no valid checkpoint" + (f" ({torn})" if torn else "")
        raise TrainerError(ExitCode.CHECKPOINT_INVALID, f"{problem}; name a folder that holds step-* folders")
    return found.newest


def _verify_file(path: Path, record: FileRecord) -> None:
    size = path.stat().st_size
    if size != record.bytes:
        raise TornCheckpoint(f"its {path.name} has {size} bytes instead of {record.bytes}")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    if digest.hexdigest() != record.sha256:
        raise TornCheckpoint(f"its {path.name} has another checksum than when it was written")


def unreadable(path: Path, error: OSError) -> TrainerError:
    """The error for something in a checkpoint folder that is there and cannot be read."""
    words = f"checkpoint folder {path} cannot be read: {error.strerror or error}; {CHECK_VOLUME}"
    return TrainerError(ExitCode.CHECKPOINT_INVALID, words)
