"""When a run saves and what it resumes from. All ranks call each method together; rank 0 touches the disk."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from dtj_api.exit_codes import ExitCode
from dtj_api.fields import encode
from dtj_api.progress import SavedCheckpoint
from dtj_api.spec import RunConfig

from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import state
from dtj_trainer.checkpoint.layout import MODEL, OPTIMIZER, FileRecord, Files, Manifest, parse, to_json
from dtj_trainer.checkpoint.resume import choose
from dtj_trainer.checkpoint.schedule import Schedule
from dtj_trainer.checkpoint.writer import Content, Directory
from dtj_trainer.clock import rfc3339
from dtj_trainer.data.dataset import Dataset
from dtj_trainer.distributed import World
from dtj_trainer.errors import TrainerError
from dtj_trainer.observe.log import Log
from dtj_trainer.optimizer import LossScale
from dtj_trainer.parallel.holdings import Holdings
from dtj_trainer.shape import ModelShape, differences


@dataclass(frozen=True)
class Losses:
    """What is known of the weights being saved: `validation` is the mean over `used` samples."""

    train: float | None = None
    validation: float | None = None
    used: int = 0


@dataclass(frozen=True)
class _Loaded:
    """What rank 0 has read of a checkpoint."""

    saved: SavedCheckpoint
    weights: state.Weights
    optimizer: state.Tree


class Saver:
    """A run's checkpoints; without `spec.checkpoint` there are none and every method does nothing."""

    def __init__(
        self,
        *,
        config: RunConfig,
        shape: ModelShape,
        dataset: Dataset,
        holdings: Holdings,
        optimizer: torch.optim.Optimizer,
        scale: LossScale,
        data_ranks: int,
        world: World,
        log: Log,
    ) -> None:
        self.config, self.shape, self.dataset, self.data_ranks = config, shape, dataset, data_ranks
        self.holdings, self.optimizer, self.scale, self.world, self.log = holdings, optimizer, scale, world, log
        self.attempt = Attempt.from_environment(os.environ)
        self.saved: SavedCheckpoint | None = None
        self._torn: frozenset[str] = frozenset()
        self._policy = config.checkpoint
        if self._policy is not None:
            self._directory = Directory(Path(self._policy.directory), self.attempt)
            self._schedule = Schedule(self._policy)

    def restore(self) -> int:
        """Put the checkpoint to start from into model and optimizer of every rank. Returns its step; 0 without one.

        Raises:
            TrainerError: CHECKPOINT_MISMATCH, CHECKPOINT_INVALID, STORAGE_FULL or FENCED; no checkpoint has been
                touched then.
        """
        if self._policy is None:
            return 0
        loaded: _Loaded | None = None

        def begin() -> SavedCheckpoint | None:
            nonlocal loaded
            loaded = self._begin()
            return loaded.saved if loaded else None

        self.saved = self.world.from_rank_zero(begin)
        self._schedule.restart()
        if self.saved is None:
            return 0
        state.share_weights(self.holdings, loaded.weights if loaded else None, self.world)
        moments = loaded.optimizer["state"] if loaded else None
        state.share_optimizer(self.holdings, self.optimizer, moments, self.world)
        self.scale.load(self.world.from_rank_zero(lambda: loaded.optimizer["loss_scale"]))  # type: ignore[union-attr]
        return self.saved.step

    def due(self, step: int) -> bool:
        """Whether the policy wants a checkpoint after this step, by the count of steps: the same on every rank."""
        return self._policy is not None and self._schedule.due(step)

    def late(self) -> bool:
        """Whether the policy wants a checkpoint by the clock, which is rank 0's: False on the others."""
        return self._policy is not None and self.world.rank == 0 and self._schedule.late()

    def missing(self, step: int) -> bool:
        """Whether there is no checkpoint of this step yet: at the end, and when the run is stopped."""
        return self._policy is not None and (self.saved is None or self.saved.step != step)

    def save(self, step: int, losses: Losses) -> SavedCheckpoint:
        """Raises TrainerError: FENCED, STORAGE_FULL or CHECKPOINT_INVALID on rank 0, PEER_LOST on the others."""
        contents = state.contents(self.holdings, self.optimizer, {"loss_scale": self.scale.state()}, self.world)
        self.saved = self.world.from_rank_zero(lambda: self._write(step, losses, contents))
        self._schedule.restart()
        return self.saved

    def _begin(self) -> _Loaded | None:
        """Take the folder over and load what this attempt starts from, to be shared with the other ranks."""
        warning = self._directory.begin()
        if warning is not None:
            self.log.warning("attempt_record_replaced", message=warning)
        loaded = None
        while loaded is None and (found := self._find()) is not None:
            folder, manifest = found
            # A fenced writer may have withdrawn it since it was found: then look again
            with suppress(FileNotFoundError):
                weights, optimizer = state.load_weights(folder), state.load_optimizer(folder)
                self._check_weights(folder, weights)
                loaded = _Loaded(_describe(folder, manifest), weights, optimizer)
        self._directory.mark_started()
        return loaded

    def _find(self) -> tuple[Path, Manifest] | None:
        """The start: as `resume` has it for the job's first attempt to get here, else from the newest valid one."""
        assert self._policy is not None
        directory = self._directory
        start = choose(directory.path, "auto" if directory.fence.started else self._policy.resume)
        for folder, reason in start.skipped:
            self.log.warning("checkpoint_skipped", path=str(folder), message=f"checkpoint {folder} is torn: {reason}")
        self._torn = frozenset(folder.name for folder, _ in start.skipped)
        if start.checkpoint is not None:
            self._check_fits(*start.checkpoint)
            if start.superseded:
                directory.supersede(start.superseded, start.checkpoint[0])
                words = f"kept as superseded-* and read no more: {', '.join(each.name for each in start.superseded)}"
                self.log.warning("checkpoints_superseded", path=str(directory.path), message=words)
        return start.checkpoint

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

    def _check_weights(self, folder: Path, weights: state.Weights) -> None:
        """What an imported model's function makes may have changed since."""
        if wrong := state.differences(weights, self.holdings):
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            words = f"checkpoint {folder} and the model differ in {', '.join(wrong[:3])}{more}"
            remedy = "use the model that wrote it, or another checkpoint folder"
            raise TrainerError(ExitCode.CHECKPOINT_MISMATCH, f"spec.training.model: {words}; {remedy}")

    def _write(self, step: int, losses: Losses, contents: list[Content]) -> SavedCheckpoint:
        assert self._policy is not None
        path, text = self._directory.save(
            step=step,
            contents=contents,
            manifest=lambda records: to_json(self._manifest(step, losses, records)),
        )
        self._directory.retire(newest=step, keep=self._policy.keep_last, torn=self._torn)
        self._torn = frozenset()
        return _describe(path, parse(text))

    def _manifest(self, step: int, losses: Losses, records: dict[str, FileRecord]) -> Manifest:
        training = self.config.training
        return Manifest(
            step=step,
            attempt=self.attempt.number,
            saved_at=rfc3339(time.time()),
            model=self.shape,
            training=encode(training),
            seed=training.seed,
            world_size=self.world.size,
            global_batch=training.global_batch(self.data_ranks),
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
