"""Files that are on the disk when a call returns. No torch."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dtj_trainer.checkpoint.layout import FileRecord


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


def write(path: Path, content: Callable[[Output], object]) -> FileRecord:
    """Write a file with what `content` puts out. Raises OSError, also where a library hides it behind its own."""
    with path.open("wb") as file:
        output = Output(file)
        try:
            content(output)
        except Exception:
            if output.error is not None:
                raise output.error from None
            raise
        file.flush()
        os.fsync(file.fileno())
    return output.record()


def write_text(path: Path, text: str) -> FileRecord:
    """Raises OSError."""
    return write(path, lambda output: output.write(text.encode()))


def sync_folder(path: Path) -> None:
    """Make renames in it last. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free(path: Path) -> int:
    """Bytes free on its volume, 0 where that cannot be told."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0
