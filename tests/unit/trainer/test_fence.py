"""Attempts that meet on one checkpoint volume: the newest writes, whatever moment another was frozen at."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.attempt import Attempt
from dtj_trainer.checkpoint import disk, layout, reader
from dtj_trainer.checkpoint.disk import Output
from dtj_trainer.checkpoint.fence import Fence
from dtj_trainer.checkpoint.writer import Directory
from dtj_trainer.errors import TrainerError

from tests.unit.trainer.saves import save

Seen = dict[str, bytes]


def attempt(number: int, job: str = "6f1c-77") -> Attempt:
    return Attempt(number, f"{job}-{number}")


def begun(folder: Path, number: int, job: str = "6f1c-77") -> Directory:
    directory = Directory(folder, attempt(number, job))
    assert directory.begin() is None
    return directory


def seen(folder: Path) -> Seen:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def fenced(do: Callable[[], object]) -> str:
    with pytest.raises(TrainerError) as caught:
        do()
    assert caught.value.code == ExitCode.FENCED
    return str(caught.value)


def test_record_names_the_attempt_that_began_last(tmp_path: Path) -> None:
    begun(tmp_path / "c", 0)
    begun(tmp_path / "c", 3)
    record = json.loads((tmp_path / "c" / "attempt.json").read_text())
    assert (record["attempt"], record["token"]) == (3, "6f1c-77-3")
    assert record["time"].endswith("Z")
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["attempt.json"]


def test_straggler_is_refused_before_it_touches_anything(tmp_path: Path) -> None:
    newer = begun(tmp_path, 2)
    save(newer, 10)
    (tmp_path / ".tmp-step-00000020-of-the-newer-one").mkdir()
    before = sorted(tmp_path.rglob("*")), seen(tmp_path)
    words = fenced(lambda: begun(tmp_path, 1))
    assert f"checkpoint folder {tmp_path}: attempt 2 of this job has it since " in words
    assert "see the pods of attempt 2" in words
    assert (sorted(tmp_path.rglob("*")), seen(tmp_path)) == before


def test_same_attempt_may_begin_again(tmp_path: Path) -> None:
    begun(tmp_path, 1)
    save(begun(tmp_path, 1), 10)


def test_writer_that_was_replaced_writes_deletes_and_moves_nothing(tmp_path: Path) -> None:
    older = begun(tmp_path, 0)
    for step in (10, 20, 30):
        save(older, step)
    newer = begun(tmp_path, 1)
    before = seen(tmp_path)
    fenced(lambda: save(older, 40))
    fenced(lambda: older.retire(newest=30, keep=1))
    fenced(lambda: older.supersede([tmp_path / "step-00000030"], tmp_path / "step-00000020"))
    fenced(older.mark_started)
    assert seen(tmp_path) == before
    save(newer, 40)


def test_writer_that_is_replaced_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    older = begun(tmp_path, 0)
    save(older, 10)
    before = seen(tmp_path)

    def replaced(output: Output) -> None:
        begun(tmp_path, 1)
        output.write(b"state")

    fenced(lambda: save(older, 20, replaced))
    after = seen(tmp_path)
    assert json.loads(after.pop("attempt.json"))["attempt"] == 1
    before.pop("attempt.json")
    assert after == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def freeze_before_rename(
    monkeypatch: pytest.MonkeyPatch, straggler: Directory, meanwhile: Callable[[], object]
) -> None:
    """The straggler finds the folder its own; then `meanwhile` happens; then it goes on."""
    check, looks = straggler.fence.check, iter(range(100))

    def frozen() -> None:
        check()
        # The first look is before the files are written, the second right before the rename
        if next(looks) == 1:
            meanwhile()

    monkeypatch.setattr(straggler.fence, "check", frozen)


def claimed_without_cleaning(folder: Path) -> Directory:
    """A newer attempt whose clean-up has not come to the straggler's temporary folder yet."""
    newer = Directory(folder, attempt(1))
    newer.fence.claim()
    return newer


@pytest.mark.parametrize("begin", [lambda folder: begun(folder, 1), claimed_without_cleaning], ids=["swept", "unswept"])
def test_writer_frozen_between_look_and_rename_takes_its_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Path], Directory]
) -> None:
    older = begun(tmp_path, 0)
    save(older, 10)
    freeze_before_rename(monkeypatch, older, lambda: begin(tmp_path))
    fenced(lambda: save(older, 20))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["attempt.json", "latest", "step-00000010"]
    assert (tmp_path / "latest").read_text() == "step-00000010\n"
    assert reader.newest_valid(tmp_path).newest is not None


def test_writer_frozen_before_rename_does_not_take_the_newer_ones_checkpoint_of_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = begun(tmp_path, 0)
    freeze_before_rename(monkeypatch, older, lambda: save(claimed_without_cleaning(tmp_path), 20))
    fenced(lambda: save(older, 20))
    found = reader.newest_valid(tmp_path).newest
    assert found is not None
    assert (found[1].step, found[1].attempt) == (20, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["attempt.json", "latest", "step-00000020"]


def test_newer_attempts_checkpoint_that_came_after_the_rename_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The straggler is frozen once more before its last look; the newer one has saved the same step by then."""
    older = begun(tmp_path, 0)
    sync = disk.sync_folder

    def frozen(path: Path) -> None:
        if path == tmp_path:
            monkeypatch.setattr(disk, "sync_folder", sync)
            save(begun(tmp_path, 1), 20)
        sync(path)

    monkeypatch.setattr(disk, "sync_folder", frozen)
    fenced(lambda: save(older, 20))
    found = reader.newest_valid(tmp_path).newest
    assert found is not None
    assert (found[1].step, found[1].attempt) == (20, 1)


def test_temporary_folder_swept_by_the_newer_attempt_is_a_fence_and_no_disk_error(tmp_path: Path) -> None:
    older = begun(tmp_path, 0)

    def swept(output: Output) -> None:
        begun(tmp_path, 1)
        raise FileNotFoundError(2, os.strerror(2))

    assert "attempt 1 of this job" in fenced(lambda: save(older, 20, swept))


def test_clean_up_spares_what_a_newer_attempt_writes_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one is frozen between its claim and its clean-up."""
    older, crashed, writing = Directory(tmp_path, attempt(0)), tmp_path / ".tmp-crashed", tmp_path / ".tmp-newer"
    crashed.mkdir()
    claim = older.fence.claim

    def frozen() -> None:
        claim()
        begun(tmp_path, 1)
        writing.mkdir()

    monkeypatch.setattr(older.fence, "claim", frozen)
    older.begin()
    assert (crashed.exists(), writing.exists()) == (False, True)


def test_folder_of_another_job_is_taken_over(tmp_path: Path) -> None:
    first = begun(tmp_path, 5, job="aaaa")
    save(first, 10)
    second = begun(tmp_path, 0, job="bbbb")
    words = fenced(lambda: save(first, 20))
    assert "another job has it since " in words
    assert "spec.checkpoint.subPath" in words
    save(second, 20)


def test_without_a_token_nothing_is_recorded_or_refused(tmp_path: Path) -> None:
    alone = Directory(tmp_path / "c", Attempt())
    alone.begin()
    alone.mark_started()
    save(alone, 10)
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["latest", "step-00000010"]
    begun(tmp_path / "c", 4)
    save(alone, 20)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"attempt": "9", "token": "6f1c-77-9", "time": ""}', b'{"attempt": 9}'],
)
def test_garbage_fences_nobody_and_is_replaced_with_a_warning(tmp_path: Path, content: bytes) -> None:
    writer = begun(tmp_path, 0)
    (tmp_path / layout.ATTEMPT).write_bytes(content)
    save(writer, 10)
    warning = Directory(tmp_path, attempt(0)).begin()
    assert warning is not None
    assert str(tmp_path / "attempt.json") in warning
    assert json.loads((tmp_path / "attempt.json").read_text())["attempt"] == 0


def test_record_that_is_gone_fences_nobody(tmp_path: Path) -> None:
    writer = begun(tmp_path, 0)
    (tmp_path / layout.ATTEMPT).unlink()
    save(writer, 10)


def test_record_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / layout.ATTEMPT).mkdir()
    with pytest.raises(TrainerError, match=r"attempt\.json cannot be read") as caught:
        Directory(tmp_path, attempt(0)).begin()
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID


def test_full_volume_is_cleared_of_crashed_saves_before_the_attempt_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = tmp_path / ".tmp-step-00000030"
    leftover.mkdir()
    write = disk.write_text

    def full(path: Path, text: str) -> object:
        if leftover.exists():
            raise OSError(28, os.strerror(28))
        return write(path, text)

    monkeypatch.setattr(disk, "write_text", full)
    begun(tmp_path, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["attempt.json"]

    def still_full(path: Path, text: str) -> object:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(disk, "write_text", still_full)
    with pytest.raises(TrainerError, match="is full") as caught:
        begun(tmp_path, 2)
    assert caught.value.code == ExitCode.STORAGE_FULL
    assert [p.name for p in tmp_path.iterdir()] == ["attempt.json"]


def test_a_jobs_start_is_remembered_by_its_attempts_and_by_no_other_job(tmp_path: Path) -> None:
    first = begun(tmp_path, 0)
    assert not first.fence.started
    assert not begun(tmp_path, 1).fence.started
    second = begun(tmp_path, 1)
    second.mark_started()
    assert begun(tmp_path, 2).fence.started
    assert not begun(tmp_path, 0, job="bbbb").fence.started
    assert [Fence(tmp_path, Attempt(number)).started for number in (0, 1)] == [False, True]
