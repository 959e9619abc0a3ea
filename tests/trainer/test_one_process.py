"""One rank in this process: what is learned, what is saved, what ends a run."""

import errno
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.checkpoint import layout, reader
from dtj_trainer.data import bigram
from dtj_trainer.errors import TrainerError
from dtj_trainer.shape import ModelShape

pytestmark = pytest.mark.torch

Make = Callable[..., dict[str, Any]]
Alone = Callable[..., Any]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def weights(folder: Path, step: int) -> bytes:
    return (folder / layout.folder_name(step) / layout.MODEL).read_bytes()


def test_gpt_sees_no_later_token() -> None:
    import torch
    from dtj_trainer import models

    torch.manual_seed(1)
    model = models.build(ModelShape("gpt", 2, 32, 4, 16, 50), seed=0)
    tokens = torch.randint(50, (2, 16))
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 50
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert not torch.equal(before[:, 9:], after[:, 9:])
    # Its own weights make a token likely after itself: judge by tokens it has not seen
    unseen = torch.randint(50, (2, 16))
    assert models.loss(before.detach(), unseen).item() == pytest.approx(math.log(50), rel=0.25)


def test_weights_depend_on_the_seed_alone() -> None:
    import torch
    from dtj_trainer import models

    shape = ModelShape("gpt", 1, 16, 2, 8, 10)
    first, same, other = (models.build(shape, seed).state_dict() for seed in (3, 3, 4))
    torch.rand(5)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_mlp_learns_the_digits(make_config: Make, alone: Alone) -> None:
    made = make_config(
        model={"name": "mlp", "size": "tiny"}, data={"images": "digits"}, steps=150, batch={"global": 64}, evaluate={}
    )
    ran = alone(made)
    assert ran.losses()[1] == pytest.approx(math.log(10), abs=0.2)
    assert ran.events("evaluated")[-1]["evalLoss"] < 0.6


def test_gpt_learns_more_than_pairs_of_bytes(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    """`aabaab…`: what follows an `a` is certain to who sees two bytes back, and a coin's throw to a bigram."""
    from dtj_api.layout import Ranks
    from dtj_trainer import config as configuration
    from dtj_trainer import data

    (tmp_path / "text").write_text("aab" * 4000)
    made = make_config(
        data={"text": str(tmp_path / "text"), "sequenceLength": 32},
        steps=250,
        batch={"perProcess": 8},
        optimizer={"learningRate": 0.003, "gradClip": 1.0},
    )
    evaluation = alone(made).events("evaluated")[-1]["evalLoss"]
    run = configuration.load(None, {"DTJ_CONFIG": json.dumps(made)}, Ranks())
    assert evaluation < 0.5 * bigram.validation_loss(data.load(run.training.data))


def test_accumulation_changes_nothing(make_config: Make, alone: Alone) -> None:
    whole = alone(make_config(steps=20)).losses()
    parts = alone(make_config(steps=20, batch={"global": 12, "accumulation": 3})).losses()
    assert whole.keys() == parts.keys()
    assert all(whole[step] == pytest.approx(parts[step], abs=2e-6) for step in whole)


def test_checkpoint_loads_into_a_plain_model_and_has_the_loss_it_records(
    tmp_path: Path, make_config: Make, alone: Alone
) -> None:
    """Recomputed here from the files alone, in a different order of samples."""
    import torch
    from dtj_trainer import models
    from dtj_trainer.data.text import tinydocs
    from safetensors.torch import load_file

    alone(make_config(tmp_path / "c", steps=30, every=20, evaluate={}))
    folder = tmp_path / "c" / "step-00000030"
    recorded = json.loads((folder / "manifest.json").read_text())
    state = load_file(folder / "model.safetensors")
    assert not [name for name in state if name.startswith("module.")]
    assert sum(t.numel() for t in state.values()) == sum(
        p.numel() for p in models.build(ModelShape(**recorded["model"]), 0).parameters()
    )
    model = models.build(ModelShape(**recorded["model"]), seed=99)
    model.load_state_dict(state, strict=True)
    tokens = torch.tensor(list(tinydocs()))
    held = tokens[round(len(tokens) * 0.9) :]
    count = (len(held) - 1) // 32
    inputs, targets = held[: count * 32].view(count, 32), held[1 : count * 32 + 1].view(count, 32)
    with torch.no_grad():
        losses = [float(models.loss(model(inputs[i : i + 50]), targets[i : i + 50])) for i in range(0, count, 50)]
        sizes = [len(inputs[i : i + 50]) for i in range(0, count, 50)]
    assert np.average(losses, weights=sizes) == pytest.approx(recorded["validationLoss"], abs=1e-5)
    assert recorded["loss"] is not None
    assert json.loads((tmp_path / "c/step-00000020/manifest.json").read_text()).get("validationLoss") is None


def test_finished_run_evaluates_and_saves_nothing_new(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    made = make_config(tmp_path, steps=10, every=10)
    first = alone(made)
    before = files(tmp_path)
    again = alone(made)
    assert again.losses() == {}
    assert again.events("evaluated")[-1]["evalLoss"] == first.events("evaluated")[-1]["evalLoss"]
    assert again.events("evaluated")[-1]["step"] == 10
    assert files(tmp_path) == before
    assert alone(make_config(tmp_path, steps=5, every=10)).events("evaluated")[-1]["step"] == 10


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_run_cut_in_two_equals_an_undisturbed_one(tmp_path: Path, make_config: Make, alone: Alone, name: str) -> None:
    optimizer = {"name": name, "learningRate": 0.01}
    whole = alone(make_config(tmp_path / "whole", steps=30, optimizer=optimizer)).losses()
    first = alone(make_config(tmp_path / "cut", steps=17, optimizer=optimizer)).losses()
    second = alone(make_config(tmp_path / "cut", steps=30, optimizer=optimizer)).losses()
    assert first | second == whole
    assert next(iter(second)) == 18
    assert weights(tmp_path / "whole", 30) == weights(tmp_path / "cut", 30)


def test_torn_checkpoint_is_named_and_the_one_before_resumed(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    whole = alone(make_config(tmp_path, steps=20)).losses()
    expected = weights(tmp_path, 20)
    with (tmp_path / "step-00000020" / layout.MODEL).open("r+b") as file:
        file.seek(2000)
        file.write(b"\x00\x01\x02\x03")
    again = alone(make_config(tmp_path, steps=20))
    (skipped,) = again.events("checkpoint_skipped")
    assert skipped["level"] == "warning"
    assert "step-00000020" in skipped["message"]
    assert again.losses() == {step: loss for step, loss in whole.items() if step > 10}
    assert weights(tmp_path, 20) == expected
    assert reader.newest_valid(tmp_path).skipped == ()


def test_keep_last(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    alone(make_config(tmp_path, steps=25, every=5, keep=2))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["latest", "step-00000020", "step-00000025"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"name": "gpt", "dimensions": {"layers": 2, "width": 64, "heads": 2}}}, "dimensions.width: "),
        ({"model": {"name": "gpt", "dimensions": {"layers": 3, "width": 32, "heads": 2}}}, "dimensions.layers: "),
        ({"model": {"name": "gpt", "dimensions": {"layers": 2, "width": 32, "heads": 4}}}, "dimensions.heads: "),
        ({"data": {"text": "tinydocs", "sequenceLength": 16}}, "spec.training.data.sequenceLength: "),
        ({"optimizer": {"name": "sgd"}}, "spec.training.optimizer.name: "),
        ({"model": {"name": "mlp", "size": "tiny"}, "data": {"images": "digits"}}, "spec.training.model.name: "),
    ],
)
def test_checkpoint_of_another_model_is_refused_and_untouched(
    tmp_path: Path, make_config: Make, alone: Alone, change: dict[str, Any], words: str
) -> None:
    alone(make_config(tmp_path, steps=10))
    before = files(tmp_path)
    with pytest.raises(TrainerError) as caught:
        alone(make_config(tmp_path, steps=20, **change))
    assert caught.value.code == ExitCode.CHECKPOINT_MISMATCH
    assert words in str(caught.value)
    assert "step-00000010" in str(caught.value)
    assert files(tmp_path) == before


@pytest.mark.parametrize("clip", [{}, {"gradClip": 1.0}])
def test_divergence_ends_the_run_and_saves_no_broken_weights(
    tmp_path: Path, make_config: Make, alone: Alone, clip: dict[str, float]
) -> None:
    made = make_config(tmp_path, every=5, steps=40, optimizer={"learningRate": 1e30, **clip}, log={"everySteps": 10})
    with pytest.raises(TrainerError) as caught:
        alone(made)
    assert caught.value.code == ExitCode.DIVERGED
    assert "learningRate" in str(caught.value)
    assert "at step 2;" in str(caught.value)
    assert not list(tmp_path.glob("step-*"))


def test_a_damaged_sample_diverges_at_its_step(
    tmp_path: Path, make_config: Make, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtj_trainer.data.images import Images

    read = Images.batch

    def broken(self: Images, indices: Any) -> Any:
        inputs, targets = read(self, indices)
        return (inputs * np.nan if 3 in indices else inputs), targets

    monkeypatch.setattr(Images, "batch", broken)
    made = make_config(
        tmp_path, every=5, model={"name": "mlp", "size": "tiny"}, data={"images": "digits"}, log={"everySteps": 1000}
    )
    lines: list[dict[str, Any]] = []
    with pytest.raises(TrainerError, match="at step") as caught:
        alone(made, lines)
    step = int(str(caught.value).split("at step ")[1].split(";")[0])
    saved = [line["step"] for line in lines if line["event"] == "checkpoint_saved"]
    assert step > 1
    assert all(each < step for each in saved)
    assert max(saved, default=0) >= step - 5


def test_full_disk_in_the_middle_of_torch_save(
    tmp_path: Path, make_config: Make, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a real one does, the disk fails inside torch's writer, which reports something else."""
    from dtj_trainer.checkpoint.disk import Output

    alone(make_config(tmp_path, steps=10))
    before = files(tmp_path)
    write = Output.write

    def full(self: Output, data: bytes) -> int:
        if self._bytes + len(data) > 50_000 and "optimizer" in self._file.name:
            self.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise self.error
        return write(self, data)

    monkeypatch.setattr(Output, "write", full)
    with pytest.raises(TrainerError) as caught:
        alone(make_config(tmp_path, steps=20))
    assert caught.value.code == ExitCode.STORAGE_FULL
    for words in (str(tmp_path), "bytes", "spec.checkpoint.size", "keepLast"):
        assert words in str(caught.value)
    assert files(tmp_path) == before


def test_checkpoint_folder_is_tried_before_the_first_step(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    (tmp_path / "file").touch()
    lines: list[dict[str, Any]] = []
    with pytest.raises(TrainerError) as caught:
        alone(make_config(tmp_path / "file" / "c"), lines)
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID
    assert not [line for line in lines if line["event"] == "step"]


def test_changed_data_are_warned_of(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    text = tmp_path / "text"
    text.write_text("some words to read " * 200)
    data = {"text": str(text), "sequenceLength": 32}
    alone(make_config(tmp_path / "c", steps=10, data=data))
    text.write_text("some words to read " * 300)
    again = alone(make_config(tmp_path / "c", steps=12, data=data))
    assert again.events("data_changed")
    assert list(again.losses()) == [11, 12]


def test_evaluate_command_judges_a_checkpoint(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    from dtj_trainer.evaluate import check_checkpoint

    alone(make_config(tmp_path, steps=20, every=10))
    line = check_checkpoint(tmp_path, with_bigram=True)
    assert line.startswith("step 20: validation loss ")
    assert "equal within 1e-05; bigram model 2.3" in line
    assert check_checkpoint(tmp_path / "step-00000010", with_bigram=False).endswith("none recorded")
    shutil.copytree(tmp_path / "step-00000010", tmp_path / "step-00000030")
    with pytest.raises(TrainerError, match="not whole") as caught:
        check_checkpoint(tmp_path / "step-00000030", with_bigram=False)
    assert caught.value.code == ExitCode.CHECKPOINT_INVALID
    with pytest.raises(TrainerError, match="no valid checkpoint"):
        check_checkpoint(tmp_path / "none", with_bigram=False)
