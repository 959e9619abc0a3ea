"""Checkpoints on disk without torch: what is whole, what is torn, what stays when a write fails."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import layout, reader
from dtj_trainer.checkpoint.disk import Output
from dtj_trainer.checkpoint.writer import Directory
from dtj_trainer.errors import TrainerError
from dtj_trainer.shape import ModelShape, differences

from tests.unit.trainer.saves import SHAPE, save


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    one = Directory(tmp_path / "checkpoints", Attempt())
    one.begin()
    return one


def test_saved_is_found_and_whole(directory: Directory) -> None:
    for step in (5, 100000000, 20):
        save(directory, step)
    found = reader.newest_valid(directory.path)
    assert found.newest is not None
    assert found.newest[1].step == 100000000
    assert found.newest[1].loss == 0.1 + 0.2
    assert not found.skipped


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "weights cut": lambda f: os.truncate(f / layout.MODEL, 100),
    "weights flipped": lambda f: _flip(f / layout.MODEL, 3000),
    "weights longer": lambda f: (f / layout.MODEL).write_bytes((f / layout.MODEL).read_bytes() + b"x"),
    "optimizer gone": lambda f: (f / layout.OPTIMIZER).unlink(),
    "optimizer empty": lambda f: os.truncate(f / layout.OPTIMIZER, 0),
    "manifest gone": lambda f: (f / layout.MANIFEST).unlink(),
    "manifest cut": lambda f: os.truncate(f / layout.MANIFEST, 200),
    "manifest empty": lambda f: os.truncate(f / layout.MANIFEST, 0),
    "manifest edited": lambda f: (f / layout.MANIFEST).write_text(
        (f / layout.MANIFEST).read_text().replace('"step": 20', '"step": 21')
    ),
    "manifest not text": lambda f: (f / layout.MANIFEST).write_bytes(b"\xff" * 50),
    "manifest a list": lambda f: (f / layout.MANIFEST).write_text("[]"),
    "manifest key flipped": lambda f: _flip(f / layout.MANIFEST, (f / layout.MANIFEST).read_text().index("worldSize")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_torn_one_is_skipped_by_name_for_the_next_older(directory: Directory, damage: str) -> None:
    save(directory, 10)
    torn = save(directory, 20)
    DAMAGE[damage](torn)
    found = reader.newest_valid(directory.path)
    assert found.newest is not None
    assert found.newest[1].step == 10
    assert [folder for folder, _ in found.skipped] == [torn]
    assert found.skipped[0][1].startswith("its ") or found.skipped[0][1].startswith("it has no ")


def test_folder_that_another_pod_removes_while_it_is_read_is_torn(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS says it with ESTALE."""
    folder = save(directory, 10)

    def stale(path: Path, record: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr(reader, "_verify_file", stale)
    assert reader.newest_valid(directory.path).skipped == ((folder, "it was removed while it was read"),)


def test_folder_under_another_steps_name_is_torn(directory: Directory) -> None:
    save(directory, 10).rename(directory.path / layout.folder_name(30))
    assert reader.newest_valid(directory.path).newest is None


def test_nothing_there_is_no_fault(tmp_path: Path) -> None:
    assert reader.newest_valid(tmp_path / "none").newest is None


def test_whole_checkpoint_of_another_format_is_an_error_rather_than_skipped(directory: Directory) -> None:
    path = save(directory, 10) / layout.MANIFEST
    body = json.loads(path.read_text())
    del body["checksum"]
    body["format"] = layout.FORMAT + 1
    path.write_text(json.dumps({"checksum": layout._checksum(body)} | body))
    with pytest.raises(TrainerError, match=f"format {layout.FORMAT + 1}") as caught:
        reader.newest_valid(directory.path)
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOSPC, ExitCode.STORAGE_FULL, "spec.checkpoint.size"),
        (errno.EDQUOT, ExitCode.STORAGE_FULL, "spec.checkpoint.keepLast"),
        (errno.EIO, ExitCode.CHECKPOINT_INVALID, "cannot be written"),
    ],
)
def test_failed_save_leaves_older_ones_and_nothing_else(
    directory: Directory, number: int, code: ExitCode, words: str
) -> None:
    save(directory, 10)
    before = sorted(p.name for p in directory.path.rglob("*"))

    def fail(output: Output) -> None:
        output.write(b"some")
        raise OSError(number, os.strerror(number))

    with pytest.raises(TrainerError) as caught:
        save(directory, 20, fail)
    assert caught.value.code == code
    assert words in str(caught.value)
    assert str(directory.path) in str(caught.value)
    assert sorted(p.name for p in directory.path.rglob("*")) == before
    assert reader.newest_valid(directory.path).newest is not None


def test_error_of_the_disk_beats_the_one_a_library_makes_of_it(directory: Directory) -> None:
    def library(output: Output) -> None:
        output._file.close()
        output.error = OSError(errno.ENOSPC, "full")
        raise RuntimeError("unexpected pos 64 vs 0")

    with pytest.raises(TrainerError) as caught:
        save(directory, 20, library)
    assert caught.value.code == ExitCode.STORAGE_FULL


def test_leftovers_of_a_crashed_save_are_swept_and_never_read(directory: Directory) -> None:
    leftover = directory.path / ".tmp-step-00000030-attempt-0-1"
    leftover.mkdir()
    (leftover / layout.MODEL).write_bytes(b"half")
    assert reader.newest_valid(directory.path).newest is None
    directory.begin()
    save(directory, 40)
    assert sorted(p.name for p in directory.path.iterdir()) == ["latest", "step-00000040"]
    assert (directory.path / "latest").read_text() == "step-00000040\n"


def test_same_step_again_replaces(directory: Directory) -> None:
    torn = save(directory, 10)
    DAMAGE["weights cut"](torn)
    save(directory, 10)
    found = reader.newest_valid(directory.path)
    assert found.newest is not None
    assert sorted(p.name for p in directory.path.iterdir()) == ["latest", "step-00000010"]


@pytest.mark.parametrize(
    ("have", "newest", "keep", "torn", "left"),
    [
        ([1, 2, 3, 4], 4, 2, [], [3, 4]),
        ([1, 2], 2, 3, [], [1, 2]),
        ([1], 1, 1, [], [1]),
        # one that is newer than what was just written was torn when we resumed: it is no reason to delete good ones
        ([1, 2, 9], 2, 2, [9], [1, 2, 9]),
        ([1, 2, 9], 2, 1, [9], [2, 9]),
        # a torn one takes no good one's place, and goes when it is overtaken
        ([1, 5, 6], 6, 2, [5], [1, 6]),
        # the step of a torn one, written anew
        ([1, 5], 5, 2, [5], [1, 5]),
    ],
)
def test_retention(
    directory: Directory, have: list[int], newest: int, keep: int, torn: list[int], left: list[int]
) -> None:
    for step in have:
        save(directory, step)
    directory.retire(newest=newest, keep=keep, torn=frozenset(map(layout.folder_name, torn)))
    assert [layout.folder_step(p.name) for p in sorted(directory.path.glob("step-*"))] == left


def test_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainerError, match="cannot be written") as caught:
        Directory(tmp_path / "file" / "checkpoints", Attempt()).begin()
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID


def test_differences_name_the_field_and_both_values() -> None:
    wider = ModelShape("gpt", 2, 128, 4, 64, 256)
    assert differences(SHAPE, SHAPE, "/c") == []
    assert differences(SHAPE, wider, "/c/step-00000100") == [
        "spec.training.model.dimensions.width: checkpoint /c/step-00000100 has 64, the job asks for 128",
        "spec.training.data.sequenceLength: checkpoint /c/step-00000100 has 128, the job asks for 64",
    ]
    other = differences(SHAPE, ModelShape("mlp", 2, 64, 0, 64, 10), "/c")
    assert other == ["spec.training.model.name: checkpoint /c has gpt, the job asks for mlp"]
