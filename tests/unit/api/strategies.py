"""Configurations for the tests of layouts and refusals, and what is said of them."""

from typing import Any

from dtj_api.fields import InvalidFields, decode
from dtj_api.layout import Ranks
from dtj_api.training import Training
from dtj_api.validation import training_errors

PODS_OF_FOUR = Ranks(8, 4)
LONG = {"model": {"name": "gpt", "size": "gpt2"}, "batch": {"perProcess": 12}}
IMAGES = {"data": {"images": "digits"}}


def training(**fields: Any) -> Training:
    base = {"model": {"name": "gpt"}, "data": {"text": "tinydocs"}, "steps": 1, "batch": {"perProcess": 1}}
    return decode(Training, {**base, **fields}, "spec.training")


def faults(ranks: Ranks = PODS_OF_FOUR, **fields: Any) -> list[str]:
    try:
        return [str(error) for error in training_errors(training(**fields), ranks, "spec.training")]
    except InvalidFields as error:
        return [str(each) for each in error.errors]


def batch(**fields: Any) -> dict[str, Any]:
    return {"batch": {"perProcess": 12, **fields}}


PIPELINE = {"strategy": "pipeline", **LONG, **batch()}
