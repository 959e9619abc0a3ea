"""Getting a checkpoint to disk so that a crash at any moment leaves the older ones whole. No torch."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from dtj_api.exit_codes import ExitCode

from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import disk
from dtj_trainer.checkpoint.disk import Output
from dtj_trainer.checkpoint.fence import Fence
from dtj_trainer.checkpoint.layout import (
    LATEST,
    MANIFEST,
    SUPERSEDED_PREFIX,
    TEMPORARY_PREFIX,
    FileRecord,
    folder_name,
    folder_step,
)
from dtj_trainer.errors import CHECK_VOLUME, FULL, TrainerError


@dataclass(frozen=True)
class Content:
    """One file of a checkpoint: its name, about how many bytes it takes, and what writes it."""

    name: str
    size: int
    write: Callable[[Output], object]


class Directory:
    """The folder of checkpoints, as one attempt writes to it. Every method may raise TrainerError: FENCED."""

    def __init__(self, path: Path, attempt: Attempt) -> None:
        self.path = path
        self.fence = Fence(path, attempt)
        # Pods of other attempts may have the same process ids
        self._mark = f"attempt-{attempt.number}-{uuid4().hex[:12]}"

    def begin(self) -> str | None:
        """Make it, see that it can be written (before hours of training, not after), make it this attempt's, and
        remove what crashed saves left. Returns a warning, or None.

        Raises:
            TrainerError: CHECKPOINT_INVALID or STORAGE_FULL.
        """
        self._probe()
        with self._writing():
            # Listed before the claim: what an attempt newer than this one writes is not among them
            leftovers = list(self.path.glob(f"{TEMPORARY_PREFIX}*"))
        try:
            with self._writing():
                warning = self.fence.claim()
        except TrainerError as error:
            if error.code != ExitCode.STORAGE_FULL:
                raise
            _remove(leftovers)
            with self._writing():
                warning = self.fence.claim()
        _remove(leftovers)
        return warning

    def supersede(self, newer: Iterable[Path], start: Path) -> None:
        """Keep checkpoints newer than `start` under names that no attempt reads.

        Raises:
            TrainerError: CHECKPOINT_INVALID or STORAGE_FULL.
        """
        with self._writing():
            for folder in newer:
                self.fence.check()
                # A fenced writer may have withdrawn it since it was listed
                with suppress(FileNotFoundError):
                    folder.rename(self._superseded(folder))
            disk.sync_folder(self.path)
        self._point_latest(start)

    def mark_started(self) -> None:
        """Note that the job has found its start. Raises TrainerError: CHECKPOINT_INVALID or STORAGE_FULL."""
        with self._writing():
            self.fence.mark_started()

    def save(
        self, *, step: int, contents: list[Content], manifest: Callable[[dict[str, FileRecord]], str]
    ) -> tuple[Path, str]:
        """Write all files into a temporary folder, make them durable, then rename it into place.

        Returns the folder and the text of its manifest.

        Args:
            manifest: from the records of the files to the text of the manifest.

        Raises:
            TrainerError: FENCED, STORAGE_FULL or CHECKPOINT_INVALID; nothing but the temporary folder was touched, and
                it is gone.
        """
        self.fence.check()
        temporary = self._temporary(folder_name(step))
        try:
            temporary.mkdir()
            records = {content.name: disk.write(temporary / content.name, content.write) for content in contents}
            text = manifest(records)
            disk.write_text(temporary / MANIFEST, text)
            disk.sync_folder(temporary)
            final = self._publish(temporary, step, text)
        except OSError as error:
            free = disk.free(self.path)
            shutil.rmtree(temporary, ignore_errors=True)
            # A newer attempt removes the temporary folders of those before it
            self.fence.check()
            raise self._explain(error, step, free, sum(content.size for content in contents)) from error
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return final, text

    def retire(self, *, newest: int, keep: int, torn: frozenset[str] = frozenset()) -> list[str]:
        """Delete what `keep` newer ones replace, and torn ones that `newest` has overtaken. Never one newer than that.

        A folder that cannot be deleted is left: a full volume is reported by the next save.
        """
        steps = {path.name: folder_step(path.name) for path in self._listed()}
        older = [(step, name) for name, step in steps.items() if step is not None and step <= newest]
        # What has just been written may bear the name of the torn one it replaced
        overtaken = {name for step, name in older if name in torn and step < newest}
        good = sorted((pair for pair in older if pair[1] not in overtaken), reverse=True)
        names = [name for _, name in good[keep:]] + sorted(overtaken)
        for name in names:
            self.fence.check()
            # Out of sight at once: what a crash leaves of it must not look like a torn checkpoint
            doomed = self._temporary(f"old-{name}")
            try:
                (self.path / name).rename(doomed)
            except OSError:
                continue
            shutil.rmtree(doomed, ignore_errors=True)
        return names

    def _probe(self) -> None:
        probe = self._temporary("probe")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.mkdir()
            # Another attempt that begins at this moment may have removed it
            with suppress(FileNotFoundError):
                probe.rmdir()
        except OSError as error:
            if error.errno not in FULL:
                raise self._unwritable(error) from None

    def _publish(self, temporary: Path, step: int, text: str) -> Path:
        final = self.path / folder_name(step)
        replaced = self._temporary(f"old-{final.name}")
        self.fence.check()
        if final.exists():
            # A torn one, or one of an attempt that this one repeats. Aside first: a full folder cannot be renamed over
            final.rename(replaced)
        try:
            temporary.rename(final)
            disk.sync_folder(self.path)
            # This process may have been frozen since it looked, and a newer attempt have begun
            self.fence.check()
        except BaseException:
            self._withdraw(final, text, replaced)
            raise
        self._point_latest(final)
        shutil.rmtree(replaced, ignore_errors=True)
        return final

    def _withdraw(self, final: Path, text: str, replaced: Path) -> None:
        """Take back a publication, unless a newer attempt has already put its own in the place."""
        doomed = self._temporary(f"withdrawn-{final.name}")
        with suppress(OSError):
            if not (final / MANIFEST).exists() or (final / MANIFEST).read_text() == text:
                final.rename(doomed)
        with suppress(OSError):
            replaced.rename(final)
        shutil.rmtree(doomed, ignore_errors=True)
        if final.exists():
            shutil.rmtree(replaced, ignore_errors=True)

    def _point_latest(self, final: Path) -> None:
        """For people only, so it never fails a save that is complete."""
        temporary = self._temporary(LATEST)
        try:
            temporary.write_text(final.name + "\n")
            temporary.rename(self.path / LATEST)
        except OSError:
            temporary.unlink(missing_ok=True)

    def _listed(self) -> list[Path]:
        try:
            return list(self.path.iterdir())
        except OSError as error:
            raise self._unwritable(error) from None

    def _temporary(self, name: str) -> Path:
        return self.path / f"{TEMPORARY_PREFIX}{name}-{self._mark}"

    def _superseded(self, folder: Path) -> Path:
        """A name that is free: the same step may have been superseded before."""
        name, number = f"{SUPERSEDED_PREFIX}{folder.name}", 1
        while (self.path / name).exists():
            number += 1
            name = f"{SUPERSEDED_PREFIX}{folder.name}-{number}"
        return self.path / name

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """For what is small: a failure says that the folder cannot be written, or is full."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise self._unwritable(error) from None
            problem = (
                f"{self.path} is full: not even attempt.json can be written, {disk.free(self.path)} bytes are free"
            )
            remedy = "use a larger spec.checkpoint.size, or remove checkpoints you no longer need"
            raise TrainerError(ExitCode.STORAGE_FULL, f"spec.checkpoint: {problem}; {remedy}") from None

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


def _remove(leftovers: Iterable[Path]) -> None:
    """What crashed saves left; one that cannot be removed does no harm."""
    for path in leftovers:
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
