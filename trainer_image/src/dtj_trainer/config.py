"""The run's configuration, parsed once: from a file or DTJ_CONFIG to a RunConfig that is known good. No torch."""

import json
from collections.abc import Mapping
from pathlib import Path

from dtj_api import environment
from dtj_api.exit_codes import ExitCode
from dtj_api.fields import InvalidFields, examine
from dtj_api.layout import Ranks
from dtj_api.spec import RunConfig
from dtj_api.validation import training_errors

from dtj_trainer.errors import TrainerError


def load(path: str | None, environ: Mapping[str, str], ranks: Ranks) -> RunConfig:
    """The configuration in the file `path`, else in DTJ_CONFIG, valid for those ranks.

    Raises:
        TrainerError: INVALID_CONFIG, there is none or it is not JSON.
        InvalidFields: with every fault found.
    """
    where, text = _read(path, environ)
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise TrainerError(ExitCode.INVALID_CONFIG, f"{where} is not JSON: {error}") from None
    config, errors = examine(RunConfig, raw, "spec")
    if config is not None:
        errors += training_errors(config.training, ranks, "spec.training")
    if config is None or errors:
        raise InvalidFields(errors)
    return config


def _read(path: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    if path is not None:
        try:
            return path, Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise TrainerError(ExitCode.INVALID_CONFIG, f"configuration {path} cannot be read: {reason}") from None
    text = environ.get(environment.CONFIG)
    if not text:
        remedy = f"give a file, or set {environment.CONFIG} (the operator does, from spec.training)"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"there is no configuration; {remedy}")
    return environment.CONFIG, text
