"""A job's spec, read once however often the job is looked at. Pure: the same words mean the same."""

from functools import lru_cache
from typing import Any

import orjson
from dtj_api.fields import InvalidFields
from dtj_api.spec import JobSpec
from dtj_api.validation import load_job_spec

# 5 kB each
MOST_REMEMBERED = 2048


def load(raw: Any, allowed: frozenset[str]) -> JobSpec:
    """As dtj_api.validation.load_job_spec.

    Raises:
        InvalidFields: with every fault of the spec.
    """
    try:
        text = orjson.dumps(raw)
    except TypeError:  # nested too deeply, or a number beyond 64 bits
        return load_job_spec(raw, allowed)
    spec = _load(text, allowed)
    if isinstance(spec, InvalidFields):
        # a new one: the traceback of one that was raised keeps what it went through
        raise InvalidFields(spec.errors)
    return spec


@lru_cache(MOST_REMEMBERED)
def _load(text: bytes, allowed: frozenset[str]) -> JobSpec | InvalidFields:
    try:
        return load_job_spec(orjson.loads(text), allowed)
    except InvalidFields as error:
        return InvalidFields(error.errors)
