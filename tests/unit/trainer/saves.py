"""Checkpoints without a model: what a Directory writes when it is given bytes."""

from collections.abc import Callable
from pathlib import Path

from dtj_trainer.checkpoint import layout
from dtj_trainer.checkpoint.disk import Output
from dtj_trainer.checkpoint.layout import FileRecord, Files, Manifest
from dtj_trainer.checkpoint.writer import Content, Directory
from dtj_trainer.shape import ModelShape

SHAPE = ModelShape("gpt", 2, 64, 4, 128, 256)


def manifest(step: int, files: Files, attempt: int = 0) -> Manifest:
    return Manifest(
        step=step,
        attempt=attempt,
        saved_at="2026-01-01T00:00:00Z",
        model=SHAPE,
        training={"model": {"name": "gpt"}},
        seed=0,
        world_size=1,
        global_batch=8,
        train_samples=10,
        validation_samples=2,
        torch="2",
        dtj="0",
        files=files,
        loss=0.1 + 0.2,
    )


def save(directory: Directory, step: int, fail: Callable[[Output], object] | None = None) -> Path:
    """A checkpoint of a few bytes; `fail` writes the optimizer's file."""
    contents = [
        Content(layout.MODEL, 7000, lambda output: output.write(b"weights" * 1000)),
        Content(layout.OPTIMIZER, 9000, fail or (lambda output: output.write(b"optimizer" * 1000))),
    ]

    def text(records: dict[str, FileRecord]) -> str:
        files = Files(records[layout.MODEL], records[layout.OPTIMIZER])
        return layout.to_json(manifest(step, files, directory.fence.attempt.number))

    path, _ = directory.save(
        step=step,
        contents=contents,
        manifest=text,
    )
    return path
