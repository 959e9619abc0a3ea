"""What a checkpoint is on disk: names, and the manifest that makes a folder a checkpoint. No torch, no I/O.

<directory>/step-00000100/model.safetensors   weights, by the bare model's names
                          optimizer.pt        torch.save of the optimizer's state by names; weights_only loads it
                          manifest.json       written last: without it there is no checkpoint
<directory>/latest                            name of the newest folder, for people
<directory>/attempt.json                      the attempt that writes here
<directory>/superseded-step-...               newer than the step a job was told to resume from
<directory>/.tmp-...                          a save that has not ended
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtj_api.fields import InvalidFields, decode, encode

from dtj_trainer.shape import ModelShape

FORMAT = 3
MODEL = "model.safetensors"
OPTIMIZER = "optimizer.pt"
MANIFEST = "manifest.json"
LATEST = "latest"
ATTEMPT = "attempt.json"
SUPERSEDED_PREFIX = "superseded-"
TEMPORARY_PREFIX = ".tmp-"
FOLDER = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class FileRecord:
    """Size and sha256 (hexadecimal) of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Files:
    """The files a manifest vouches for."""

    model: FileRecord
    optimizer: FileRecord

    def by_name(self) -> dict[str, FileRecord]:
        return {MODEL: self.model, OPTIMIZER: self.optimizer}

    @property
    def bytes(self) -> int:
        return self.model.bytes + self.optimizer.bytes


@dataclass(frozen=True)
class Manifest:
    """Everything needed to resume from a checkpoint, or to judge it without the job.

    Attributes:
        step: optimizer steps done; with the seed it is the position in the data.
        model: shape of the weights.
        training: `spec.training` of the run that wrote it.
        world_size, global_batch: of that run.
        train_samples, validation_samples: in its data set.
        loss: training loss of this step, mean over the ranks; None where it was not logged.
        validation_loss: of exactly these weights over the first `validation_used` validation samples; None where this
            step was not evaluated.
        torch, dtj: versions that wrote it.
    """

    step: int
    attempt: int
    saved_at: str
    model: ModelShape
    training: Mapping[str, Any]
    seed: int
    world_size: int
    global_batch: int
    train_samples: int
    validation_samples: int
    torch: str
    dtj: str
    files: Files
    loss: float | None = None
    validation_loss: float | None = None
    validation_used: int = 0
    format: int = field(default=FORMAT)


class UnknownFormat(ValueError):
    """A whole checkpoint of another version of this trainer."""


def folder_name(step: int) -> str:
    """
    >>> folder_name(100)
    'step-00000100'
    """
    return f"step-{step:08d}"


def folder_step(name: str) -> int | None:
    """The step a folder's name tells; None for any other name."""
    match = FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def to_json(manifest: Manifest) -> str:
    """The manifest's text, with a checksum of itself."""
    body = encode(manifest)
    return json.dumps({"checksum": _checksum(body)} | body, indent=1, allow_nan=False) + "\n"


def parse(text: str) -> Manifest:
    """Raises ValueError for what is damaged, UnknownFormat for what is whole and only another version can read."""
    raw = json.loads(text)
    if not isinstance(raw, dict) or raw.pop("checksum", None) != _checksum(raw):
        raise ValueError("damaged")
    if raw.get("format") != FORMAT:
        raise UnknownFormat(f"its manifest has format {raw.get('format')}, this trainer reads format {FORMAT}")
    try:
        return decode(Manifest, raw, "manifest")
    except InvalidFields as error:
        raise UnknownFormat(f"its manifest cannot be read by this version: {error.errors[0]}") from None


def _checksum(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
