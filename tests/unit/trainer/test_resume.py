"""Where a job starts: `checkpoint.resume` against what the folder holds."""

import os
from pathlib import Path

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import layout, reader
from dtj_trainer.checkpoint.resume import choose
from dtj_trainer.checkpoint.writer import Directory
from dtj_trainer.errors import TrainerError

from tests.unit.trainer.saves import save


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    one = Directory(tmp_path / "checkpoints", Attempt())
    one.begin()
    return one


def tear(folder: Path) -> None:
    os.truncate(folder / layout.MODEL, 1)


def steps(directory: Directory) -> list[int | None]:
    return [layout.folder_step(p.name) for p in reader.newest_first(directory.path)]


def test_auto_is_the_newest_valid_or_nothing(directory: Directory) -> None:
    assert choose(directory.path, "auto").checkpoint is None
    save(directory, 10)
    tear(save(directory, 20))
    start = choose(directory.path, "auto")
    assert start.checkpoint is not None
    assert start.checkpoint[1].step == 10
    assert len(start.skipped) == 1
    assert start.superseded == ()


def test_never_starts_in_an_empty_folder_alone(directory: Directory) -> None:
    assert choose(directory.path, "never").checkpoint is None
    tear(save(directory, 10))
    with pytest.raises(TrainerError) as caught:
        choose(directory.path, "never")
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID
    for words in ("spec.checkpoint.resume: ", str(directory.path), "steps 10;", "spec.checkpoint.subPath", '"auto"'):
        assert words in str(caught.value)


def test_number_is_that_step_and_the_newer_ones_whole_or_torn_are_in_the_way(directory: Directory) -> None:
    saved = {step: save(directory, step) for step in (10, 20, 30, 40)}
    tear(saved[40])
    start = choose(directory.path, 20)
    assert start.checkpoint is not None
    assert (start.checkpoint[0], start.checkpoint[1].step) == (saved[20], 20)
    assert start.superseded == (saved[40], saved[30])
    assert choose(directory.path, 30).superseded == (saved[40],)


@pytest.mark.parametrize(
    ("have", "torn", "words"),
    [
        ([10, 30], [], ["there is no ", "step-00000020;", "steps 30, 10;"]),
        ([10, 20], [20], ["step-00000020 is not whole: its model.safetensors", "steps 20, 10;"]),
        ([], [], ["there is no ", "has no checkpoints;", "mount the volume"]),
        (list(range(100, 113)), [], ["112, 111, 110, 109, 108, 107, 106, 105, 104, 103 and 3 older ones;"]),
    ],
)
def test_number_that_is_not_there_names_what_is(
    directory: Directory, have: list[int], torn: list[int], words: list[str]
) -> None:
    saved = {step: save(directory, step) for step in have}
    for step in torn:
        tear(saved[step])
    with pytest.raises(TrainerError) as caught:
        choose(directory.path, 20)
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID
    assert all(each in str(caught.value) for each in ["spec.checkpoint.resume: ", *words])


def test_superseded_ones_are_kept_and_neither_read_nor_counted(directory: Directory) -> None:
    for step in (10, 20, 30):
        save(directory, step)
    for start in (20, 10):
        found = choose(directory.path, start)
        assert found.checkpoint is not None
        directory.supersede(found.superseded, found.checkpoint[0])
        assert (directory.path / "latest").read_text() == f"step-000000{start}\n"
    save(directory, 20)
    found = choose(directory.path, 10)
    assert found.checkpoint is not None
    directory.supersede(found.superseded, found.checkpoint[0])
    save(directory, 15)
    directory.retire(newest=15, keep=1)
    assert steps(directory) == [15]
    kept = sorted(directory.path.glob("superseded-*"))
    assert [p.name for p in kept] == [
        "superseded-step-00000020",
        "superseded-step-00000020-2",
        "superseded-step-00000030",
    ]
    assert all((folder / layout.MANIFEST).exists() for folder in kept)
    # to have one back it is enough to give it its name again
    kept[2].rename(directory.path / "step-00000030")
    assert reader.verify(directory.path / "step-00000030").step == 30
