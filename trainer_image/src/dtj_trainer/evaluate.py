"""Validation loss: the same number on any count of ranks, and recomputed from a checkpoint without its job."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from dtj_api.exit_codes import ExitCode
from dtj_api.fields import decode
from dtj_api.training import Evaluate, Training

from dtj_trainer import data, models
from dtj_trainer.checkpoint.layout import Manifest
from dtj_trainer.checkpoint.reader import locate
from dtj_trainer.checkpoint.state import differences, load_weights, share_weights
from dtj_trainer.data import bigram
from dtj_trainer.data.dataset import Array, Split
from dtj_trainer.distributed import World
from dtj_trainer.errors import TrainerError
from dtj_trainer.parallel.holdings import Holdings, anatomy
from dtj_trainer.parallel.strategy import Strategy

# of a loss, relative, by the format of the run's matrix products: here all are in fp32
TOLERANCES = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 5e-3}


@dataclass(frozen=True)
class Result:
    """Mean loss in nats a target, over the first `used` validation samples."""

    loss: float
    used: int


def samples_used(evaluate: Evaluate, global_batch: int, available: int) -> int:
    """How many validation samples an evaluation reads: all, or `evaluate.batches` global batches of them."""
    return min(available, evaluate.batches * global_batch) if evaluate.batches else available


def validation_loss(
    strategy: Strategy, split: Split, *, used: int, batch: int, rank: int, ranks: int, world: World
) -> Result:
    """Each of the `ranks` that have samples of their own computes its share of the first `used`, `batch` at a time;
    none is counted twice."""
    mine = np.arange(rank, used, ranks)
    # who has fewer samples than rank 0 takes part in its last rounds all the same, with some that are not counted
    rounds = _parts(_parts(used, ranks) if strategy.even else len(mine), batch)
    total, seen = torch.zeros((), dtype=torch.float64, device=world.device), 0
    strategy.holdings.train(False)
    for number in range(rounds):
        chosen = mine[number * batch : (number + 1) * batch]
        size = batch if strategy.whole_batches else max(len(chosen), 1)
        filled = np.concatenate([chosen, np.zeros(size - len(chosen), chosen.dtype)])
        inputs, targets = (to_device(each, world.device) for each in split.batch(filled))
        targets[len(chosen) :] = models.IGNORED
        total += strategy.summed_loss(inputs, targets)
        seen += targets[: len(chosen)].numel() if strategy.answers else 0
    strategy.holdings.train(True)
    total_loss, count = world.sum(total.item(), seen)
    return Result(total_loss / count, used)


def _parts(whole: int, of: int) -> int:
    """How many parts of that size, the last one smaller."""
    return -(-whole // of)


def to_device(array: Array, device: torch.device) -> torch.Tensor:
    """A batch of numpy as a tensor there."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def check_checkpoint(path: Path, *, with_bigram: bool) -> str:
    """Recompute the validation loss of the checkpoint at `path` in one plain process; one line about it.

    Raises:
        TrainerError: CHECKPOINT_INVALID, it is not whole or its loss is not the recorded one.
        InvalidFields: its manifest names data that this version does not know.
    """
    folder, manifest = locate(path)
    training = decode(Training, manifest.training, "spec.training")
    dataset = data.load(training.data)
    model = models.build(manifest.model, manifest.seed)
    world = World(0, 1, torch.device("cpu"))
    holdings, weights = Holdings([model], anatomy(model)), load_weights(folder)
    if wrong := differences(weights, holdings):
        words = f"its weights are not those of the model it names: {', '.join(wrong[:3])}"
        raise TrainerError(ExitCode.CHECKPOINT_INVALID, f"checkpoint {folder}: {words}")
    share_weights(holdings, weights, world)
    used = manifest.validation_used or len(dataset.validation)
    strategy = Strategy(model, holdings, world.device, autocast=None)
    used = min(used, len(dataset.validation))
    loss = validation_loss(strategy, dataset.validation, used=used, batch=16, rank=0, ranks=1, world=world).loss
    line = _compare(folder, manifest, loss, TOLERANCES[training.precision.compute])
    if with_bigram:
        if training.data.text is None:
            raise TrainerError(ExitCode.INVALID_CONFIG, "--bigram: is only for text; leave it out")
        line += f"; bigram model {bigram.validation_loss(dataset):.4f}"
    return line


def _compare(folder: Path, manifest: Manifest, loss: float, tolerance: float) -> str:
    head = f"step {manifest.step}: validation loss {loss:.4f}"
    recorded = manifest.validation_loss
    if recorded is None:
        return f"{head}, none recorded"
    if abs(loss - recorded) <= tolerance * max(1.0, abs(recorded)):
        return f"{head}, recorded {recorded:.4f}, equal within {tolerance:g}"
    words = f"{head}, recorded {recorded:.4f}: they differ by {abs(loss - recorded):.2g}"
    remedy = "the data are not those of the run, or the checkpoint is not what was saved"
    raise TrainerError(ExitCode.CHECKPOINT_INVALID, f"checkpoint {folder}: {words}; {remedy}")
