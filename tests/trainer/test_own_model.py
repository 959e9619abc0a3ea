"""A model of the user's own (model.import), in one process. With many ranks: tests/equivalence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dtj_api.exit_codes import ExitCode

pytestmark = pytest.mark.torch

Make = Callable[..., dict[str, Any]]
Alone = Callable[..., Any]

OWN = "tests.equivalence.own_model:build"


def test_dropout_is_resumed_as_if_nothing_had_been(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    model = {"import": OWN, "arguments": {"layers": 1, "dropout": 0.5}}
    straight = alone(make_config(model=model, steps=8)).losses()
    alone(make_config(tmp_path / "c", model=model, steps=4, every=4))
    resumed = alone(make_config(tmp_path / "c", model=model, steps=8, every=4)).losses()
    assert resumed == {step: straight[step] for step in range(5, 9)}, "to the last bit"
    other = alone(make_config(model=model, steps=8, seed=8)).losses()
    assert other[8] != straight[8]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (
            "no.such_module:build",
            {},
            "No module named 'no'; the trainer's container must have no on its PYTHONPATH, or ins",
        ),
        ("tests.equivalence.own_model:make", {}, "has no attribute 'make'; name a function of the module"),
        (OWN, {"depth": 3}, "unexpected keyword argument 'depth'"),
        ("builtins:dict", {}, "it returned dict, not an nn.Module; return the model"),
    ],
)
def test_what_is_wrong_with_it_is_said(
    make_config: Make, alone: Alone, name: str, arguments: dict[str, Any], words: str
) -> None:
    from dtj_trainer.errors import TrainerError

    with pytest.raises(TrainerError) as raised:
        alone(make_config(model={"import": name, "arguments": arguments}, steps=1))
    assert raised.value.code == ExitCode.INVALID_CONFIG
    assert f"spec.training.model.import: {name}: " in str(raised.value)
    assert words in str(raised.value)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    from dtj_trainer.errors import TrainerError

    def run(arguments: dict[str, Any], steps: int) -> None:
        alone(make_config(tmp_path / "c", model={"import": OWN, "arguments": arguments}, steps=steps, every=2))

    run({"layers": 1}, 2)
    with pytest.raises(
        TrainerError, match=r'spec.training.model.arguments: checkpoint .* has \{"layers": 1\}, the job'
    ):
        run({"layers": 2}, 4)


def test_a_function_that_makes_something_else_now_is_found_out(
    tmp_path: Path, make_config: Make, alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtj_trainer.errors import TrainerError

    from tests.equivalence import own_model

    config = make_config(tmp_path / "c", model={"import": OWN}, steps=2, every=2)
    alone(config)
    build = own_model.build
    monkeypatch.setattr(own_model, "build", lambda inputs, outputs: build(inputs, outputs, width=24))
    config["training"]["steps"] = 4
    with pytest.raises(
        TrainerError, match=r"differ in classes.bias|differ in .*and .* more; use the model that wrote it"
    ):
        alone(config)
