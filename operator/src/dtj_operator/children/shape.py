"""The form a user's template must have before anything is built from it. Pure.

The CRD keeps the template as it is, whatever it is. Only the places that the builders touch are looked at here; for the
rest the API server's own words are better.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dtj_api.fields import FieldError

# {}: an object; [x]: a list of x; a type: itself
_SECURITY = {"capabilities": {"add": [str], "drop": [str]}}
_CONTAINER = {
    "name": str,
    "image": str,
    "env": [{"name": str}],
    "ports": [{}],
    "volumeMounts": [{"mountPath": str}],
    "securityContext": _SECURITY,
}
_TEMPLATE = {
    "metadata": {"labels": {}, "annotations": {}},
    "spec": {"containers": [_CONTAINER], "volumes": [{"name": str}], "securityContext": {}},
}


def faults(template: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """Every place of `spec.template` that has the wrong form."""
    yield from _faults(template, _TEMPLATE, "spec.template")


def _faults(value: Any, shape: Any, path: str) -> Iterator[FieldError]:
    if value is None:
        return
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            yield FieldError(path, "is not an object", "write its fields below it")
            return
        for name, inner in shape.items():
            yield from _faults(value.get(name), inner, f"{path}.{name}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield FieldError(path, "is not a list", "begin each of its items with '- '")
            return
        for i, item in enumerate(value):
            if item is None:
                yield FieldError(f"{path}[{i}]", "is nothing", "write it out, or remove it")
            yield from _faults(item, shape[0], f"{path}[{i}]")
    elif not isinstance(value, shape):
        yield FieldError(path, f"is {value!r}", "write a string; put it in quotation marks")
