"""What the training loop tells about itself, spread to log, metrics and progress record."""

import statistics
import time
from dataclasses import replace

from dtj_api.layout import Layout
from dtj_api.progress import Progress, SavedCheckpoint
from dtj_api.spec import RunConfig

from dtj_trainer.clock import rfc3339
from dtj_trainer.observe.eta import Estimate
from dtj_trainer.observe.flops import Work
from dtj_trainer.observe.log import Log
from dtj_trainer.observe.metrics import Metrics
from dtj_trainer.parallel.strategy import Traffic
from dtj_trainer.run_folder import RunFolder

WRITE_SECONDS = 0.5


class Observer:
    """One rank's. Rank 0 alone logs steps and writes the progress record; all ranks have metrics."""

    def __init__(
        self,
        *,
        config: RunConfig,
        rank: int,
        layout: Layout,
        tokens_per_sample: int,
        log: Log,
        run: RunFolder | None,
        traffic: Traffic | None = None,
        work: Work | None = None,
    ) -> None:
        training, policy = config.training, config.checkpoint
        self.log, self._run, self._leads = log, run, rank == 0
        self.metrics = Metrics(
            rank,
            tokens=tokens_per_sample > 0,
            saves=policy is not None and rank == 0,
            compresses=traffic is not None,
            mfu=work is not None and work.peak is not None,
        )
        self._work = work
        self._traffic, self._told = traffic, Traffic()
        self._global_batch = training.global_batch(layout.data_ranks)
        # once among those that share samples, so that ranks add up to the whole
        self._own_batch = self._global_batch // layout.data_ranks if layout.counts(rank) else 0
        self._tokens_per_sample = tokens_per_sample
        self.progress = Progress(step=0, total_steps=training.steps)
        self._eta = Estimate(
            total_steps=training.steps,
            evaluate_every=training.evaluate.every_steps,
            save_every=policy.every_steps if policy else 0,
        )
        self._since_log: list[float] = []
        self._lap = time.perf_counter()
        self._written = 0.0

    def begin(self, step: int, checkpoint: SavedCheckpoint | None) -> None:
        """The loop starts after `step` steps."""
        self.progress = replace(self.progress, step=step, checkpoint=checkpoint)
        self.metrics.step.set(step)
        self._saved(checkpoint)
        self._publish(force=True)
        self._lap = time.perf_counter()

    def step(self, step: int) -> None:
        """A step has ended. Costs microseconds and never waits for the device."""
        now = time.perf_counter()
        seconds, self._lap = now - self._lap, now
        self._since_log.append(seconds)
        self._eta.step_took(seconds)
        metrics = self.metrics
        metrics.step.set(step)
        metrics.step_seconds.observe(seconds)
        metrics.samples.inc(self._own_batch)
        if metrics.tokens is not None:
            metrics.tokens.inc(self._own_batch * self._tokens_per_sample)
        metrics.last_step.set(time.time())
        if self._traffic is not None:
            self._tell(self._traffic)

    def _tell(self, traffic: Traffic) -> None:
        """What compression has sent and spared since it was last told."""
        sent, dense = traffic.sent - self._told.sent, traffic.dense - self._told.dense
        self._told.count(sent, dense)
        assert self.metrics.gradient_bytes is not None
        assert self.metrics.gradient_bytes_saved is not None
        self.metrics.gradient_bytes.inc(sent)
        # the first steps of a hook may cost more than they save
        self.metrics.gradient_bytes_saved.inc(max(0, dense - sent))

    def logged(self, step: int, *, epoch: int, loss: float, gradient_norm: float, learning_rate: float) -> None:
        """The loss of this step has been read back and is the mean over the ranks."""
        self.metrics.loss.set(loss)
        self.metrics.gradient_norm.set(gradient_norm)
        self.metrics.learning_rate.set(learning_rate)
        samples = self._global_batch * len(self._since_log) / max(sum(self._since_log), 1e-9)
        tokens = samples * self._tokens_per_sample or None
        mfu = self._work.utilisation(samples) if self._work else None
        if self.metrics.mfu is not None and mfu is not None:
            self.metrics.mfu.set(mfu)
        now = rfc3339(time.time())
        self.progress = replace(
            self.progress,
            step=step,
            epoch=epoch,
            loss=loss,
            samples_per_second=samples,
            tokens_per_second=tokens,
            mfu=mfu,
            first_step_time=self.progress.first_step_time or now,
            last_step_time=now,
        )
        if self._leads:
            self.log.info(
                "step",
                step=step,
                total_steps=self.progress.total_steps,
                epoch=epoch,
                loss=loss,
                gradient_norm=gradient_norm,
                learning_rate=learning_rate,
                samples_per_second=round(samples, 3),
                tokens_per_second=round(tokens, 1) if tokens else None,
                mfu=round(mfu, 4) if mfu else None,
                step_seconds=round(statistics.fmean(self._since_log), 6),
                eta_seconds=_rounded(self._eta.seconds_left(step)),
            )
        self._since_log.clear()
        self._publish()

    def evaluated(self, step: int, loss: float, samples: int, seconds: float) -> None:
        """The validation loss after this step is known."""
        self.metrics.eval_loss.set(loss)
        self._eta.pause_took("evaluation", seconds)
        self.progress = replace(self.progress, step=step, eval_loss=loss)
        if self._leads:
            self.log.info("evaluated", step=step, eval_loss=loss, samples=samples, seconds=round(seconds, 3))
        self._publish()

    def saved(self, checkpoint: SavedCheckpoint, seconds: float) -> None:
        """A checkpoint of this step is complete."""
        self._eta.pause_took("save", seconds)
        if self.metrics.checkpoint_seconds is not None:
            self.metrics.checkpoint_seconds.observe(seconds)
        self._saved(checkpoint)
        self.progress = replace(self.progress, step=checkpoint.step, checkpoint=checkpoint)
        if self._leads:
            self.log.info(
                "checkpoint_saved",
                step=checkpoint.step,
                path=checkpoint.path,
                bytes=checkpoint.bytes,
                seconds=round(seconds, 3),
            )
        self._publish()

    def stopped(self, step: int) -> None:
        """The run was asked to stop after this step."""
        self.progress = replace(self.progress, step=step)
        self._publish(force=True)

    def resume_clock(self) -> None:
        """An evaluation or a save has ended: it is no part of the next step's time."""
        self._lap = time.perf_counter()

    def close(self) -> None:
        """The last record, whatever the time of the one before."""
        self._publish(force=True)

    def _saved(self, checkpoint: SavedCheckpoint | None) -> None:
        if checkpoint is not None and self.metrics.checkpoint_step is not None:
            self.metrics.checkpoint_step.set(checkpoint.step)

    def _publish(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._run is None or not self._leads or (not force and now - self._written < WRITE_SECONDS):
            return
        left = _rounded(self._eta.seconds_left(self.progress.step))
        try:
            self._run.write_progress(replace(self.progress, eta_seconds=left))
        except OSError as error:
            # Training is worth more than the record of it
            self.log.warning("progress_unwritten", message=f"{self._run.path}: {error.strerror}")
        self._written = now


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
