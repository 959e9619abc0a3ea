"""The training loop. Readable top to bottom; what it calls is in the folders beside it."""

import math
import time
from functools import partial

import torch
from dtj_api import partition
from dtj_api.exit_codes import ExitCode
from dtj_api.layout import Ranks, layout
from dtj_api.spec import RunConfig

from dtj_trainer import models, optimizer
from dtj_trainer.checkpoint.saver import Losses, Saver
from dtj_trainer.data.dataset import Array, Dataset
from dtj_trainer.data.sampler import Sampler
from dtj_trainer.distributed import World, seed_device
from dtj_trainer.errors import TrainerError
from dtj_trainer.evaluate import Result, samples_used, to_device, validation_loss
from dtj_trainer.health.signals import StopRequest
from dtj_trainer.observe.flops import work
from dtj_trainer.observe.log import Log
from dtj_trainer.observe.observer import Observer
from dtj_trainer.parallel.apply import parallelise
from dtj_trainer.run_folder import RunFolder
from dtj_trainer.shape import model_shape


def train(
    *, config: RunConfig, dataset: Dataset, world: World, stop: StopRequest, log: Log, run_folder: RunFolder | None
) -> None:
    """Train from the checkpoint that `checkpoint.resume` means, or from the seed, to `steps`.

    Raises:
        TrainerError: STOPPED after a signal and the save it led to; DIVERGED; what checkpoints raise.
    """
    run = Run(config=config, dataset=dataset, world=world, log=log, run_folder=run_folder)
    start = run.restore()
    stop.defer()
    for step in range(start + 1, config.training.steps + 1):
        answers = world.ask(stop.requested, run.saver.late())
        run.train_step(step)
        if run.log_due(step):
            run.log_step(step)
        if run.evaluation_due(step):
            run.evaluate(step)
        stopping, late = answers()
        if late or run.saver.due(step):
            run.save(step)
        if stopping and step < config.training.steps:
            run.stop(step, asked_here=stop.requested)
    run.finish(max(start, config.training.steps))


class Run:
    """The parts of one rank's run and what the last step left behind."""

    def __init__(
        self, *, config: RunConfig, dataset: Dataset, world: World, log: Log, run_folder: RunFolder | None
    ) -> None:
        training = config.training
        self.training, self.dataset, self.world, self.log = training, dataset, world, log
        shape = model_shape(training, dataset.inputs, dataset.outputs)
        self.layout = layout(training, Ranks(world.size, world.local_size))
        self.batch = training.per_process_batch(self.layout.data_ranks)
        self.data_rank = self.layout.data_rank(world.rank)
        self.sampler = Sampler(
            samples=len(dataset.train),
            global_batch=training.global_batch(self.layout.data_ranks),
            seed=training.seed,
            rank=self.data_rank,
            ranks=self.layout.data_ranks,
        )
        build, example = partial(models.build, shape, training.seed), self._example()
        self.work = (
            work(build, example, world.device, world.size, training.precision.compute) if world.rank == 0 else None
        )
        self.strategy = parallelise(build, training, self.layout, world, example, log)
        self.optimizer = optimizer.build(self.strategy.holdings, training.optimizer)
        self.scale = optimizer.LossScale(moves=training.precision.is_half)
        self.saver = Saver(
            config=config,
            shape=shape,
            dataset=dataset,
            holdings=self.strategy.holdings,
            optimizer=self.optimizer,
            scale=self.scale,
            data_ranks=self.layout.data_ranks,
            world=world,
            log=log,
        )
        self.observer = Observer(
            config=config,
            rank=world.rank,
            layout=self.layout,
            tokens_per_sample=dataset.tokens_per_sample,
            log=log,
            run=run_folder,
            traffic=self.strategy.traffic,
            work=self.work,
        )
        self.loss = self.norm = torch.zeros((), device=world.device)
        self.first_bad_step = torch.full((), math.inf, dtype=torch.float64, device=world.device)
        self.logged: tuple[int, float] | None = None
        self.evaluated: tuple[int, Result] | None = None
        self.first_step = 1

    def restore(self) -> int:
        """Optimizer steps already done."""
        start = self.saver.restore()
        self.observer.begin(start, self.saver.saved)
        self.first_step = start + 1
        if self.world.rank == 0:
            self.log.info(
                "training",
                step=start,
                total_steps=self.training.steps,
                world_size=self.world.size,
                device=str(self.world.device),
                parameters=self.strategy.holdings.anatomy.parameters,
                flops_per_sample=self.work.per_sample if self.work else None,
                resumed_from=self.saver.saved.path if self.saver.saved else None,
            )
        return start

    def train_step(self, step: int) -> None:
        """One optimizer step. Nothing here waits for the device."""
        # what is random in the model depends on nothing but the step and the samples' rank, so a run is resumed exactly
        seed_device(((self.training.seed + 1) * 2**32 + step * 2**16 + self.data_rank) % 2**63, self.world.device)
        self.loss = self.strategy.forward_backward(self._microbatches(step), self.scale.value)
        self.norm = optimizer.step(
            self.optimizer, self.training.optimizer.grad_clip, self.scale, self.strategy.gradient_norm
        )
        if self.scale.overflowed and self.world.rank == 0:
            words = f"step {step} was left out: its gradients overflowed; the loss scale is {self.scale.value:g} now"
            self.log.warning("step_skipped", step=step, message=words)
        bad = ~torch.isfinite(self.loss) | ~torch.isfinite(self.norm)
        self.first_bad_step = torch.where(bad, self.first_bad_step.clamp(max=step), self.first_bad_step)
        self.observer.step(step)

    def log_due(self, step: int) -> bool:
        """The interval, the first step of this attempt and the last."""
        return step % self.training.log.every_steps == 0 or step in (self.first_step, self.training.steps)

    def log_step(self, step: int) -> None:
        """Read the loss back and say it."""
        self._check_sound(step, weights=False)
        loss = self.world.sum(self.loss.item())[0] / self.layout.ranks_per_stage
        self.logged = (step, loss)
        self.observer.logged(
            step,
            epoch=self.sampler.epoch(step),
            loss=loss,
            gradient_norm=self.norm.item(),
            learning_rate=self.training.optimizer.learning_rate,
        )

    def evaluation_due(self, step: int) -> bool:
        """The interval; and the last step before its save, which so records the loss of its weights."""
        every = self.training.evaluate.every_steps
        return step == self.training.steps or (every > 0 and step % every == 0)

    def evaluate(self, step: int) -> None:
        """Validation loss of the weights as they are.

        Raises:
            TrainerError: DIVERGED.
        """
        began = time.perf_counter()
        split = self.dataset.validation
        used = samples_used(self.training.evaluate, self.sampler.global_batch, len(split))
        result = validation_loss(
            self.strategy,
            split,
            used=used,
            batch=self.batch,
            rank=self.data_rank,
            ranks=self.layout.data_ranks,
            world=self.world,
        )
        if not math.isfinite(result.loss):
            raise _diverged(step, "validation loss")
        self.evaluated = (step, result)
        self.observer.evaluated(step, result.loss, used, time.perf_counter() - began)
        self.observer.resume_clock()

    def save(self, step: int) -> None:
        """A checkpoint of the weights as they are, with what is known of them.

        Raises:
            TrainerError: DIVERGED, the weights are not worth keeping; what Saver.save raises.
        """
        self._check_sound(step, weights=True)
        began = time.perf_counter()
        train_loss = self.logged[1] if self.logged and self.logged[0] == step else None
        losses = Losses(train_loss)
        if self.evaluated and self.evaluated[0] == step:
            losses = Losses(train_loss, self.evaluated[1].loss, self.evaluated[1].used)
        self.observer.saved(self.saver.save(step, losses), time.perf_counter() - began)
        self.observer.resume_clock()

    def stop(self, step: int, *, asked_here: bool) -> None:
        """Save and leave. Raises TrainerError: STOPPED."""
        if self.saver.missing(step):
            self.save(step)
        self.observer.stopped(step)
        cause = "on a signal" if asked_here else "with its gang, as a signal to another rank asked"
        where = (
            f"the checkpoint is {self.saver.saved.path}"
            if self.saver.saved
            else "nothing was saved: no spec.checkpoint"
        )
        raise TrainerError(ExitCode.STOPPED, f"stopped at step {step} {cause}; {where}")

    def finish(self, step: int) -> None:
        """The end of the run, which may have been reached by an attempt before this one."""
        if self.evaluated is None:
            self.evaluate(step)
        if self.saver.missing(step):
            self.save(step)
        self.observer.close()

    def _microbatches(self, step: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """This rank's part of the step's global batch, `accumulation` pairs of inputs and targets (perProcess, ...)."""
        chosen = self.sampler.at(step - 1)
        pieces = [chosen[i : i + self.batch] for i in range(0, len(chosen), self.batch)]
        return [self._tensors(self.dataset.train.batch(piece)) for piece in pieces]

    def _example(self) -> torch.Tensor:
        """Inputs of one microbatch."""
        count = partition.microbatches(self.training, self.layout) if self.layout.pipeline > 1 else 1
        return self._tensors(self.dataset.train.batch(self.sampler.at(0)[: self.batch // count]))[0]

    def _tensors(self, arrays: tuple[Array, Array]) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = (to_device(array, self.world.device) for array in arrays)
        return inputs, targets

    def _check_sound(self, step: int, *, weights: bool) -> None:
        """Of all steps until now, and of the `weights` that they came to. Every rank must call it at the same step.

        Raises:
            TrainerError: DIVERGED.
        """
        sound = not weights or optimizer.all_finite(p for _, p in self.strategy.holdings.parameters())
        first = self.world.min(min(self.first_bad_step.item(), math.inf if sound else step))[0]
        if math.isfinite(first):
            raise _diverged(int(first), "loss")


def _diverged(step: int, what: str) -> TrainerError:
    remedy = "lower spec.training.optimizer.learningRate or set spec.training.optimizer.gradClip"
    words = f"the {what} is no longer a finite number at step {step}; nothing was saved since; {remedy}"
    return TrainerError(ExitCode.DIVERGED, words)
