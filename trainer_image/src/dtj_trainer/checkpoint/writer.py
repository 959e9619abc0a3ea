"""Getting a checkpoint to disk so that a crash at any moment leaves the older ones whole. No torch."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dtj_api.exit_codes import ExitCode

from dtj_trainer.checkpoint.layout import LATEST, MANIFEST, TEMPORARY_PREFIX, FileRecord, folder_name, folder_step
from dtj_trainer.errors import CHECK_VOLUME, FULL, TrainerError


class Output:
    """A file being written, as torch.save wants it: hashes what passes, and keeps the first OSError.

    torch's own writer hides the error of a full disk behind one of its own.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            self._file.write(data)
        except OSError as error:
            self.error = self.error or error
            raise
        self._digest.update(data)
        self._bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def record(self) -> FileRecord:
        return FileRecord(self._bytes, self._digest.hexdigest())


@dataclass(frozen=True)
class Content:
    """One file of a checkpoint: its name, and what writes it."""

    name: str
    write: Callable[[Output], object]


class Directory:
    """The folder of checkpoints, as one attempt writes to it."""

    def __init__(self, path: Path, attempt: int) -> None:
        self.path = path
        self.attempt = attempt

    def prepare(self) -> None:
        """Make it, and see that it can be written: before hours of training, not after.

        Raises:
            TrainerError: CHECKPOINT_INVALID.
        """
        probe = self.path / f"{TEMPORARY_PREFIX}probe-{self.attempt}-{os.getpid()}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            if error.errno not in FULL:
                raise self._unwritable(error) from None

    def save(
        self, *, step: int, contents: list[Content], manifest: Callable[[dict[str, FileRecord]], str], needed: int
    ) -> tuple[Path, str]:
        """Write all files into a temporary folder, make them durable, then rename it into place.

        Returns the folder and the text of its manifest.

        Args:
            manifest: from the records of the files to the text of the manifest.
            needed: bytes, as an estimate for the message of a full disk.

        Raises:
            TrainerError: STORAGE_FULL or CHECKPOINT_INVALID; nothing but the temporary folder was touched, and it is
                gone.
        """
        self._sweep()
        temporary = self.path / f"{TEMPORARY_PREFIX}{folder_name(step)}-attempt-{self.attempt}-{os.getpid()}"
        try:
            temporary.mkdir()
            records = {content.name: _write(temporary / content.name, content.write) for content in contents}
            text = manifest(records)
            _write(temporary / MANIFEST, lambda output: output.write(text.encode()))
            _sync_folder(temporary)
            final = self._put_in_place(temporary, step)
        except OSError as error:
            free = _free(self.path)
            shutil.rmtree(temporary, ignore_errors=True)
            raise self._explain(error, step, free, needed) from error
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        self._point_latest(final)
        return final, text

    def retire(self, *, newest: int, keep: int, torn: frozenset[str] = frozenset()) -> list[str]:
        """Delete what `keep` newer ones replace, and torn ones that `newest` has overtaken. Never one newer than that.

        A folder that cannot be deleted is left: a full volume is reported by the next save.
        """
        steps = {path.name: folder_step(path.name) for path in self.path.iterdir()}
        older = [(step, name) for name, step in steps.items() if step is not None and step <= newest]
        # What has just been written may bear the name of the torn one it replaced
        overtaken = {name for step, name in older if name in torn and step < newest}
        good = sorted((pair for pair in older if pair[1] not in overtaken), reverse=True)
        names = [name for _, name in good[keep:]] + sorted(overtaken)
        for name in names:
            # Out of sight at once: what a crash leaves of it must not look like a torn checkpoint
            doomed = self.path / f"{TEMPORARY_PREFIX}old-{name}"
            try:
                (self.path / name).rename(doomed)
            except OSError:
                continue
            shutil.rmtree(doomed, ignore_errors=True)
        return names

    def _sweep(self) -> None:
        """Remove what crashed saves left; their writers are gone, or their attempt is."""
        try:
            for path in self.path.glob(f"{TEMPORARY_PREFIX}*"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        except OSError:
            return

    def _put_in_place(self, temporary: Path, step: int) -> Path:
        final = self.path / folder_name(step)
        old = self.path / f"{TEMPORARY_PREFIX}old-{final.name}-{os.getpid()}"
        if final.exists():
            # A torn one, or one of an attempt that this one repeats. Aside first: a full folder cannot be renamed over
            final.rename(old)
        temporary.rename(final)
        _sync_folder(self.path)
        shutil.rmtree(old, ignore_errors=True)
        return final

    def _point_latest(self, final: Path) -> None:
        """For people only, so it never fails a save that is complete."""
        temporary = self.path / f"{TEMPORARY_PREFIX}{LATEST}-{os.getpid()}"
        try:
            temporary.write_text(final.name + "\n")
            temporary.rename(self.path / LATEST)
        except OSError:
            temporary.unlink(missing_ok=True)

    def _explain(self, error: OSError, step: int, free: int, needed: int) -> TrainerError:
        if error.errno not in FULL:
            return self._unwritable(error)
        words = (
            f"spec.checkpoint: {self.path} is full: the checkpoint of step {step} needs about {needed} bytes, "
            f"{free} are free; older checkpoints are untouched; "
            "use a larger spec.checkpoint.size or a lower spec.checkpoint.keepLast"
        )
        return TrainerError(ExitCode.STORAGE_FULL, words)

    def _unwritable(self, error: OSError) -> TrainerError:
        words = f"spec.checkpoint: {self.path} cannot be written: {error.strerror or error}; {CHECK_VOLUME}"
        return TrainerError(ExitCode.CHECKPOINT_INVALID, words)


def _write(path: Path, write: Callable[[Output], object]) -> FileRecord:
    with path.open("wb") as file:
        output = Output(file)
        try:
            write(output)
        except Exception:
            if output.error is not None:
                raise output.error from None
            raise
        file.flush()
        os.fsync(file.fileno())
    return output.record()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(path: Path) -> int:
    """Bytes free, with what the failed save has taken still taken."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0
