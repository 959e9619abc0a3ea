"""The order of samples. A function of seed, epoch and global step alone: never of world size or accumulation."""

import numpy as np

from dtj_trainer.data.dataset import Indices


class Sampler:
    """Endless epochs, each a new permutation of all samples, read in global batches that may straddle two epochs.

    The batch of a step is the same set in the same order on any number of ranks: rank r reads the r-th of `ranks` equal
    slices. So a run resumes from its step alone, on another world size too.
    """

    def __init__(self, *, samples: int, global_batch: int, seed: int, rank: int = 0, ranks: int = 1) -> None:
        assert samples > 0
        assert global_batch % ranks == 0
        self.samples = samples
        self.global_batch = global_batch
        self.seed = seed
        self.slice = slice(rank * global_batch // ranks, (rank + 1) * global_batch // ranks)
        self._epoch, self._order = -1, np.zeros(0, np.int64)

    def at(self, step: int) -> Indices:
        """This rank's sample numbers in the step after `step` optimizer steps."""
        first = step * self.global_batch
        positions = np.arange(first + self.slice.start, first + self.slice.stop, dtype=np.int64)
        epochs, places = positions // self.samples, positions % self.samples
        chosen = np.empty_like(positions)
        for epoch in np.unique(epochs):
            chosen[epochs == epoch] = self._permutation(int(epoch))[places[epochs == epoch]]
        return chosen

    def epoch(self, step: int) -> int:
        """Whole passes over the data after `step` optimizer steps."""
        return step * self.global_batch // self.samples

    def _permutation(self, epoch: int) -> Indices:
        if epoch != self._epoch:
            order = np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(self.samples)
            self._epoch, self._order = epoch, order
        return self._order
