"""Data sets and the order of samples; no torch."""

from pathlib import Path

import numpy as np
import pytest
from dtj_api.exit_codes import ExitCode
from dtj_api.training import Data
from dtj_trainer import data
from dtj_trainer.data import bigram
from dtj_trainer.data.sampler import Sampler
from dtj_trainer.data.text import tinydocs
from dtj_trainer.errors import TrainerError


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_order_does_not_depend_on_the_number_of_ranks(ranks: int) -> None:
    alone = Sampler(samples=50, global_batch=24, seed=3)
    gang = [Sampler(samples=50, global_batch=24, seed=3, rank=r, ranks=ranks) for r in range(ranks)]
    for step in (0, 1, 2, 7, 1):
        together = np.concatenate([sampler.at(step) for sampler in gang])
        assert together.tolist() == alone.at(step).tolist()


def test_every_epoch_holds_every_sample_once_and_differs_from_the_last() -> None:
    sampler = Sampler(samples=10, global_batch=4, seed=0)
    stream = np.concatenate([sampler.at(step) for step in range(5)])
    assert sorted(stream[:10]) == sorted(stream[10:]) == list(range(10))
    assert stream[:10].tolist() != stream[10:].tolist()
    assert [sampler.epoch(step) for step in (0, 2, 3, 5)] == [0, 0, 1, 2]


def test_batch_larger_than_the_data_goes_round() -> None:
    assert sorted(Sampler(samples=3, global_batch=7, seed=0).at(0)[:6]) == [0, 0, 1, 1, 2, 2]


def test_seed_decides_the_order() -> None:
    orders = {tuple(Sampler(samples=20, global_batch=20, seed=seed).at(0)) for seed in range(3)}
    assert len(orders) == 3


def test_sequences_predict_the_next_token_and_splits_do_not_overlap(tmp_path: Path) -> None:
    tokens = np.arange(100, dtype="<u2")
    tokens.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "b.npy", np.arange(100, 200))
    dataset = data.load(Data(tokens=str(tmp_path), vocabulary_size=200, sequence_length=8))
    inputs, targets = dataset.train.batch(np.arange(len(dataset.train)))
    assert (targets == inputs + 1).all()
    assert inputs.ravel().tolist() == list(range(len(dataset.train) * 8))
    assert targets.max() < 180
    inputs, targets = dataset.validation.batch(np.arange(len(dataset.validation)))
    assert (inputs.min(), targets.max()) == (180, 196)


def test_text_of_a_folder_is_its_files_in_order_hidden_ones_left_out(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.txt").write_text("zwei\n" * 40)
    (tmp_path / "a.txt").write_text("äins " * 40)
    (tmp_path / ".hidden").write_bytes(b"\xff\xfe")
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "a.txt").write_text("not twice")
    (tmp_path / "lost+found").mkdir()
    dataset = data.load(Data(text=str(tmp_path), sequence_length=4, validation_fraction=0.2))
    wanted = (("äins " * 40).encode() + b"\n" + b"zwei\n" * 40)[:20]
    assert bytes(dataset.train.batch(np.arange(5))[0].ravel().astype(np.uint8)) == wanted


def test_tinydocs_is_english_and_ships_with_python() -> None:
    text = tinydocs().decode()
    assert len(text) > 400_000
    assert " the " in text


def test_digits() -> None:
    pytest.importorskip("sklearn")
    dataset = data.load(Data(images="digits"))
    assert (len(dataset.train), len(dataset.validation), dataset.inputs, dataset.outputs) == (1617, 180, 64, 10)
    pixels, labels = dataset.train.batch(np.array([0, 5]))
    assert pixels.dtype == np.float32
    assert 0 <= pixels.min() <= pixels.max() <= 1
    assert labels.tolist() == [0, 5]


def test_bigram_loss_of_a_text_one_can_compute_by_hand(tmp_path: Path) -> None:
    """`abab…` with add-one smoothing: p = (n + 1) / (n + 256) for each of the two pairs."""
    (tmp_path / "t").write_text("ab" * 500)
    dataset = data.load(Data(text=str(tmp_path), sequence_length=9, validation_fraction=0.1))
    targets = len(dataset.train) * 9
    first, second = (targets + 1) // 2, targets // 2
    held = len(dataset.validation) * 9
    share = (
        (held + 1) // 2 * np.log((first + 1) / (first + 256)) + held // 2 * np.log((second + 1) / (second + 256))
    ) / held
    assert bigram.validation_loss(dataset) == pytest.approx(-share, abs=1e-6)


def _npy(path: Path, array: object) -> None:
    np.save(path, array)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "field", "words"),
    [
        (lambda d: d.rmdir(), "text", "does not exist"),
        (lambda d: None, "text", "holds no text"),
        (lambda d: (d / "empty").touch(), "text", "holds no text"),
        (lambda d: (d / "a").write_bytes(b"\xff\xfe\x00" * 100), "text", "is not UTF-8"),
        (lambda d: (d / "a").write_bytes("ä".encode()[:1]), "text", "is not UTF-8"),
        (lambda d: (d / "a").write_text("too short"), "text", "too short"),
        (lambda d: d.rmdir(), "tokens", "does not exist"),
        (lambda d: (d / "a.txt").write_text("text"), "tokens", "has no .bin or .npy"),
        (lambda d: (d / "a.bin").write_bytes(b"123"), "tokens", "odd number of bytes"),
        (lambda d: (d / "a.bin").touch(), "tokens", "too short"),
        (lambda d: (d / "a.npy").write_bytes(b"no numpy"), "tokens", "not an array"),
        (lambda d: (d / "a.npy").write_bytes(b""), "tokens", "too short"),
        (lambda d: _npy(d / "a.npy", np.zeros((4, 4), int)), "tokens", "2 dimensions"),
        (lambda d: _npy(d / "a.npy", np.zeros(100)), "tokens", "float64"),
    ],
)
def test_data_that_cannot_be_used_is_one_error_with_field_and_remedy(
    tmp_path: Path, make: object, field: str, words: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    make(folder)  # type: ignore[operator]
    given = {field: str(folder)} | ({"vocabulary_size": 100} if field == "tokens" else {})
    with pytest.raises(TrainerError) as caught:
        data.load(Data(**given, sequence_length=16))  # type: ignore[arg-type]
    assert caught.value.code == ExitCode.DATA_NOT_FOUND
    message = str(caught.value)
    assert message.startswith(f"spec.training.data.{field}: ")
    assert words in message
    assert "; " in message
    assert "\n" not in message


@pytest.mark.parametrize(("values", "named"), [([5, 100, 7] * 50, "token 100"), ([5, -1] * 50, "token -1")])
def test_token_outside_the_vocabulary(tmp_path: Path, values: list[int], named: str) -> None:
    np.save(tmp_path / "t.npy", np.array(values))
    with pytest.raises(TrainerError, match=r"^spec.training.data.vocabularySize: 100 ") as caught:
        data.load(Data(tokens=str(tmp_path / "t.npy"), vocabulary_size=100, sequence_length=8))
    assert caught.value.code == ExitCode.INVALID_CONFIG
    assert named in str(caught.value)
