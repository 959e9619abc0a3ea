"""Strict decoding: every fault found, each with its path and a remedy."""

from typing import Any

import pytest
from dtj_api.fields import InvalidFields, decode, encode
from dtj_api.spec import RunConfig
from dtj_api.training import Training

GOOD: dict[str, Any] = {
    "model": {"name": "gpt", "size": "tiny"},
    "data": {"text": "tinydocs"},
    "steps": 10,
    "batch": {"global": 8},
}


def faults(**changes: Any) -> list[str]:
    with pytest.raises(InvalidFields) as caught:
        decode(Training, GOOD | changes, "spec.training")
    return [str(error) for error in caught.value.errors]


def test_what_is_encoded_decodes_to_the_same() -> None:
    config = decode(RunConfig, {"training": GOOD, "checkpoint": {"directory": "/c"}}, "config")
    assert decode(RunConfig, encode(config), "config") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimiser": {}}, "spec.training.optimiser: is not a known field; did you mean optimizer?"),
        ({"zzz": 1}, "spec.training.zzz: is not a known field; known here: activationCheckpointing, batch,"),
        ({"steps": "ten"}, "spec.training.steps: 'ten' is a string, not a whole number; write a whole number"),
        ({"steps": True}, "spec.training.steps: True is a boolean, not a whole number"),
        ({"steps": 0}, "spec.training.steps: is 0; it must be at least 1"),
        ({"steps": 1.5}, "spec.training.steps: 1.5 is a number, not a whole number"),
        ({"steps": None}, "spec.training.steps: is missing"),
        (
            {"strategy": "dpp"},
            "spec.training.strategy: 'dpp' is not one of ddp, fsdp, hsdp, tensor, pipeline, hybrid; did you mean ddp?",
        ),
        ({"model": []}, "spec.training.model: is a list, not an object"),
        ({"optimizer": {"betas": [0.9]}}, "spec.training.optimizer.betas: has 1 values; write a list of 2 values"),
        ({"optimizer": {"betas": [0.9, 1]}}, "spec.training.optimizer.betas[1]: is 1; it must be less than 1"),
        ({"optimizer": {"learningRate": float("nan")}}, "spec.training.optimizer.learningRate: is nan; it must be"),
    ],
)
def test_a_fault_names_its_path_and_the_remedy(changes: dict[str, Any], message: str) -> None:
    assert any(fault.startswith(message) for fault in faults(**changes)), faults(**changes)


def test_all_faults_come_together() -> None:
    assert len(faults(steps=0, seed=-1, modle={}, batch={"global": 0})) == 4


def test_a_whole_number_serves_as_a_number() -> None:
    training = decode(Training, GOOD | {"optimizer": {"learningRate": 1}}, "t")
    assert training.optimizer.learning_rate == 1.0
