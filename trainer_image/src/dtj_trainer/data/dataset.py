"""What a data set is to the rest of the trainer."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Array = NDArray[Any]


class Split(Protocol):
    """One part of a data set: numbered samples."""

    def __len__(self) -> int: ...

    def batch(self, indices: Indices) -> tuple[Array, Array]:
        """Inputs and targets of these samples.

        Sequences: two int64 arrays (B, L), targets one token ahead. Images: float32 (B, features) and int64 (B,).
        """
        ...


@dataclass(frozen=True)
class Dataset:
    """Training and validation samples that never overlap.

    Attributes:
        inputs: tokens in a sequence, or features of a sample.
        outputs: size of the vocabulary, or classes.
        tokens_per_sample: 0 where samples are not sequences.
    """

    train: Split
    validation: Split
    inputs: int
    outputs: int
    tokens_per_sample: int
