"""Images that ship with scikit-learn."""

from dataclasses import dataclass

import numpy as np
from dtj_api.training import Data

from dtj_trainer.data.dataset import Array, Dataset, Indices

CLASSES = 10


@dataclass(frozen=True)
class Images:
    """Flat images (N, features) in [0, 1] and their classes (N,)."""

    pixels: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Indices) -> tuple[Array, Array]:
        return self.pixels[indices], self.labels[indices]


def digits(data: Data) -> Dataset:
    """The 1,797 handwritten digits of 8x8 pixels (Alpaydin and Kaynak, UCI 1998).

    The last `validationFraction` of them, which other people wrote, is for validation.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = (bunch.data / 16).astype(np.float32)
    labels = bunch.target.astype(np.int64)
    cut = min(max(1, round(len(labels) * (1 - data.validation_fraction))), len(labels) - 1)
    train, validation = Images(pixels[:cut], labels[:cut]), Images(pixels[cut:], labels[cut:])
    return Dataset(train, validation, inputs=pixels.shape[1], outputs=CLASSES, tokens_per_sample=0)
