"""A bigram model of the same data: the bar a language model must pass to have learned more than pairs of bytes."""

import numpy as np

from dtj_trainer.data.dataset import Dataset, Split


def validation_loss(dataset: Dataset, chunk: int = 256) -> float:
    """Mean loss in nats a token on the validation targets; counts of the training samples, add-one smoothing."""
    size = dataset.outputs
    counts = _pairs(dataset.train, size, chunk) + 1.0
    log_probabilities = np.log(counts) - np.log(counts.sum(1, keepdims=True))
    wanted = _pairs(dataset.validation, size, chunk)
    return float(-(wanted * log_probabilities).sum() / wanted.sum())


def _pairs(split: Split, size: int, chunk: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """How often token j follows token i, (size, size)."""
    counts = np.zeros(size * size)
    for start in range(0, len(split), chunk):
        inputs, targets = split.batch(np.arange(start, min(start + chunk, len(split))))
        counts += np.bincount((inputs * size + targets).ravel(), minlength=size * size)
    return counts.reshape(size, size)
