"""Data sets: what is read, how it is split, in which order it comes. numpy only; knows nothing of ranks or torch."""

from dtj_api.training import Data

from dtj_trainer.data.dataset import Dataset


def load(data: Data) -> Dataset:
    """The data set a validated `spec.training.data` names.

    Raises:
        TrainerError: DATA_NOT_FOUND, or INVALID_CONFIG where data and configuration contradict each other.
    """
    # Imported where used: scikit-learn takes a second
    if data.images is not None:
        from dtj_trainer.data import images

        return images.digits(data)
    from dtj_trainer.data import text

    return text.from_text(data) if data.text is not None else text.from_tokens(data)
