"""When a run saves and what it resumes from. All ranks call each method together; rank 0 touches the disk."""

import os
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from dtj_api import environment
from dtj_api.exit_codes import ExitCode
from dtj_api.fields import encode
from dtj_api.progress import SavedCheckpoint
from dtj_api.spec import RunConfig
from torch import nn

from dtj_trainer.checkpoint import state
from dtj_trainer.checkpoint.layout import MODEL, OPTIMIZER, FileRecord, Files, Manifest, parse, to_json
from dtj_trainer.checkpoint.reader import newest_valid
from dtj_trainer.checkpoint.writer import Directory
from dtj_trainer.clock import rfc3339
from dtj_trainer.data.dataset import Dataset
from dtj_trainer.distributed import World
from dtj_trainer.errors import TrainerError
from dtj_trainer.observe.log import Log
from dtj_trainer.shape import ModelShape, differences


@dataclass(frozen=True)
class Losses:
    """What is known of the weights being saved: `validation` is the mean over `used` samples."""

    train: float | None = None
    validation: float | None = None
    used: int = 0


class Saver:
    """A run's checkpoints; without `spec.checkpoint` there are none and every method does nothing."""

    def __init__(
        self,
        *,
        config: RunConfig,
        shape: ModelShape,
        dataset: Dataset,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        world: World,
        log: Log,
    ) -> None:
        self.config, self.shape, self.dataset = config, shape, dataset
        self.model, self.optimizer, self.world, self.log = model, optimizer, world, log
        self.attempt = int(os.environ.get(environment.ATTEMPT) or 0)
        self.saved: SavedCheckpoint | None = None
        self._torn: frozenset[str] = frozenset()
        policy = config.checkpoint
        self._every = policy.every_steps if policy else 0
        self._keep = policy.keep_last if policy else 0
        self._directory = Directory(Path(policy.directory), self.attempt) if policy else None

    def restore(self) -> int:
        """Put the newest valid checkpoint into model and optimizer of every rank. Returns its step; 0 without one.

        Raises:
            TrainerError: CHECKPOINT_MISMATCH or CHECKPOINT_INVALID; nothing has been written then.
        """
        directory = self._directory
        if directory is None:
            return 0
        self.saved = self.world.from_rank_zero(lambda: self._find(directory))
        if self.saved is None:
            return 0
        folder = Path(self.saved.path)
        optimizer_state = None
        if self.world.rank == 0:
            state.load_model(folder, self.model)
            optimizer_state = state.load_optimizer(folder)
        state.share_model(self.model, self.world)
        state.share_optimizer(self.optimizer, optimizer_state, self.world)
        return self.saved.step

    def due(self, step: int) -> bool:
        """Whether the policy wants a checkpoint after this step."""
        return self._directory is not None and step % self._every == 0

    def missing(self, step: int) -> bool:
        """Whether there is no checkpoint of this step yet: at the end, and when the run is stopped."""
        return self._directory is not None and (self.saved is None or self.saved.step != step)

    def save(self, step: int, losses: Losses) -> SavedCheckpoint:
        """Raises TrainerError: STORAGE_FULL or CHECKPOINT_INVALID on rank 0, PEER_LOST on the others."""
        self.saved = self.world.from_rank_zero(lambda: self._write(step, losses))
        return self.saved

    def _find(self, directory: Directory) -> SavedCheckpoint | None:
        found = newest_valid(directory.path)
        for folder, reason in found.skipped:
            self.log.warning("checkpoint_skipped", path=str(folder), message=f"checkpoint {folder} is torn: {reason}")
        self._torn = frozenset(folder.name for folder, _ in found.skipped)
        if found.newest is not None:
            self._check_fits(*found.newest)
        directory.prepare()
        return None if found.newest is None else _describe(*found.newest)

    def _check_fits(self, folder: Path, manifest: Manifest) -> None:
        problems = differences(manifest.model, self.shape, str(folder))
        theirs, ours = (manifest.training.get("optimizer") or {}).get("name"), self.config.training.optimizer.name
        if theirs != ours:
            problems.append(f"spec.training.optimizer.name: checkpoint {folder} has {theirs}, the job asks for {ours}")
        if problems:
            words = "; ".join(problems) + "; use the same model and data, or another checkpoint folder"
            raise TrainerError(ExitCode.CHECKPOINT_MISMATCH, words)
        have = (manifest.train_samples, manifest.validation_samples)
        want = (len(self.dataset.train), len(self.dataset.validation))
        if have != want:
            words = f"checkpoint {folder} was trained on other data: {have} training and validation samples, now {want}"
            self.log.warning("data_changed", message=words)

    def _write(self, step: int, losses: Losses) -> SavedCheckpoint:
        assert self._directory is not None
        path, text = self._directory.save(
            step=step,
            contents=state.contents(self.model, self.optimizer),
            manifest=lambda records: to_json(self._manifest(step, losses, records)),
            needed=state.size(self.model, self.optimizer),
        )
        self._directory.retire(newest=step, keep=self._keep, torn=self._torn)
        self._torn = frozenset()
        return _describe(path, parse(text))

    def _manifest(self, step: int, losses: Losses, records: dict[str, FileRecord]) -> Manifest:
        training = self.config.training
        return Manifest(
            step=step,
            attempt=self.attempt,
            saved_at=rfc3339(time.time()),
            model=self.shape,
            training=encode(training),
            seed=training.seed,
            world_size=self.world.size,
            global_batch=training.global_batch(self.world.size),
            train_samples=len(self.dataset.train),
            validation_samples=len(self.dataset.validation),
            torch=str(torch.__version__),
            dtj=version("dtj-trainer"),
            files=Files(records[MODEL], records[OPTIMIZER]),
            loss=losses.train,
            validation_loss=losses.validation,
            validation_used=losses.used,
        )


def _describe(path: Path, manifest: Manifest) -> SavedCheckpoint:
    weights = manifest.files.model.sha256
    return SavedCheckpoint(manifest.step, str(path), manifest.saved_at, manifest.files.bytes, weights, manifest.attempt)
