"""A model of the user's own: made by a function that the job names."""

import importlib
import json
import traceback

from dtj_api.exit_codes import ExitCode
from torch import nn

from dtj_trainer.errors import TrainerError
from dtj_trainer.shape import ModelShape


def imported(shape: ModelShape) -> nn.Module:
    """What `package.module:function` returns for the data's inputs and outputs and the job's arguments.

    Raises:
        TrainerError: INVALID_CONFIG.
    """
    assert shape.factory is not None
    module, _, function = shape.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(module), function)
    except ImportError as error:
        # it, or something that it needs itself
        missing = error.name or module
        remedy = f"the trainer's container must have {missing} on its PYTHONPATH, or installed"
        raise _wrong(shape, f"{type(error).__name__}: {error}; {remedy}") from None
    except AttributeError as error:
        raise _wrong(shape, f"{error}; name a function of the module") from None
    arguments = json.loads(shape.arguments or "{}")
    try:
        model = factory(inputs=shape.inputs, outputs=shape.outputs, **arguments)
    except Exception as error:
        lines = traceback.extract_tb(error.__traceback__)
        where = f"{lines[-1].filename}:{lines[-1].lineno}"
        raise _wrong(shape, f"it failed with {type(error).__name__}: {error} ({where})") from error
    if not isinstance(model, nn.Module):
        raise _wrong(shape, f"it returned {type(model).__name__}, not an nn.Module; return the model")
    return model


def _wrong(shape: ModelShape, words: str) -> TrainerError:
    return TrainerError(ExitCode.INVALID_CONFIG, f"spec.training.model.import: {shape.factory}: {words}")
