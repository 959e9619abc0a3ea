"""Strict decoding of manifest fields into frozen dataclasses: every fault is found, each with its path and a remedy.

A dataclass is the schema. `camelCase` in the manifest is `snake_case` here (a trailing underscore frees a Python
keyword: `global` is `global_`). Bounds sit in the field: `field(metadata=bounds(minimum=1))`.
"""

import dataclasses
import difflib
import functools
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class FieldError:
    """One fault of a manifest: where, what is wrong, what to do."""

    path: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.remedy}"


class InvalidFields(ValueError):
    """A manifest or configuration that cannot be honoured. `errors` holds every fault found, never just the first."""

    def __init__(self, errors: list[FieldError]) -> None:
        assert errors
        self.errors = errors
        super().__init__("\n".join(str(error) for error in errors))


def bounds(
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    min_items: int | None = None,
    max_items: int | None = None,
) -> dict[str, Any]:
    """Field metadata. `minimum` and `maximum` are allowed values, `above` and `below` are not; of a list they bound its
    items, and `min_items` and `max_items` their number."""
    given = {
        "minimum": minimum, "maximum": maximum, "above": above, "below": below,
        "min_items": min_items, "max_items": max_items,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def pattern(expression: str, words: str, *, max_length: int) -> dict[str, Any]:
    """Field metadata of a string: what the whole of it matches, in words for the remedy, and its longest form."""
    return {"pattern": expression, "words": words, "max_length": max_length}


def manifest_name(python_name: str) -> str:
    """
    >>> manifest_name("learning_rate"), manifest_name("global_")
    ('learningRate', 'global')
    """
    head, *rest = python_name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)


def decode(cls: type[T], raw: Any, path: str) -> T:
    """Build `cls` from the mapping `raw` found at `path` of a manifest.

    Raises:
        InvalidFields: with every fault in `raw`, unknown keys included (and the nearest known name).
    """
    value, errors = examine(cls, raw, path)
    if value is None or errors:
        raise InvalidFields(errors)
    return value


def examine(cls: type[T], raw: Any, path: str) -> tuple[T | None, list[FieldError]]:
    """What `raw` means and every fault in it. A faulty field that has a default is taken to have it: what spans fields
    can still be checked (`without_followers` then drops what only follows from a fault), and all be told together."""
    decoder = _Decoder()
    value = decoder.record(cls, raw, path)
    return typing.cast("T | None", value), decoder.errors


def without_followers(errors: Iterable[FieldError], faulty: Iterable[FieldError]) -> list[FieldError]:
    """`errors` but those that speak of a field, or of what is above or below it, that is in `faulty` already."""
    paths = [f"{fault.path}." for fault in faulty]

    def follows(error: FieldError) -> bool:
        here = f"{error.path}."
        return any(path.startswith(here) or here.startswith(path) for path in paths)

    return [error for error in errors if not follows(error)]


def encode(value: Any) -> Any:
    """The manifest form of a decoded dataclass; `None` is left out. `decode(type(v), encode(v), "") == v`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {manifest_name(name): encode(item) for name, item in pairs if item is not None}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


@functools.cache
def _shape(cls: type[Any]) -> tuple[Mapping[str, Any], Mapping[str, "dataclasses.Field[Any]"]]:
    """Types of a dataclass's fields, and its fields by their names in a manifest."""
    return typing.get_type_hints(cls), {manifest_name(f.name): f for f in dataclasses.fields(cls)}


class _Decoder:
    """Walks types and raw values side by side; a faulty value is None, and so is what cannot be without it."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def fault(self, path: str, problem: str, remedy: str) -> None:
        self.errors.append(FieldError(path.lstrip("."), problem, remedy))

    def record(self, cls: Any, raw: Any, path: str) -> Any:
        if not isinstance(raw, Mapping):
            return self.fault(path, f"is {_kind(raw)}, not an object", "write its fields below it")
        hints, known = _shape(cls)
        self.unknown_keys(raw, known, path)
        whole = True
        values: dict[str, Any] = {}
        for name, definition in known.items():
            here = f"{path}.{name}"
            if raw.get(name) is not None:
                value = self.value(hints[definition.name], raw[name], here, definition.metadata)
                if value is not None:
                    values[definition.name] = value
                whole = whole and (value is not None or not _required(definition))
            elif _required(definition):
                whole = False
                self.fault(here, "is missing", "it has no default: set it")
        return cls(**values) if whole else None

    def unknown_keys(self, raw: Mapping[str, Any], known: Mapping[str, Any], path: str) -> None:
        for key in raw:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
                remedy = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
                self.fault(f"{path}.{key}", "is not a known field", remedy)

    def value(self, hint: Any, raw: Any, path: str, limits: Mapping[str, Any]) -> Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self.union([a for a in arguments if a is not types.NoneType], raw, path, limits)
        if dataclasses.is_dataclass(hint):
            return self.record(typing.cast(type[Any], hint), raw, path)
        if origin is Literal:
            return self.choice(arguments, raw, path)
        if origin is tuple:
            return self.sequence(arguments, raw, path, limits)
        if origin is Mapping:
            if not isinstance(raw, Mapping):
                return self.fault(path, f"is {_kind(raw)}, not an object", "write its fields below it")
            return raw
        return self.scalar(hint, raw, path, limits)

    def union(self, members: list[Any], raw: Any, path: str, limits: Mapping[str, Any]) -> Any:
        """`int | Literal["auto"]`: the member of the value's own type, else the last one's word on it."""
        fitting = [member for member in members if isinstance(member, type) and type(raw) is member]
        if not fitting and typing.get_origin(members[-1]) is Literal and raw not in typing.get_args(members[-1]):
            words = " or ".join([*(_SCALARS[m][1] for m in members[:-1]), *map(str, typing.get_args(members[-1]))])
            return self.fault(path, f"{raw!r} is not {words}", f"write {words}")
        return self.value((fitting or members[-1:])[0], raw, path, limits)

    def choice(self, choices: tuple[Any, ...], raw: Any, path: str) -> Any:
        if raw in choices:
            return raw
        near = difflib.get_close_matches(str(raw), [str(choice) for choice in choices], n=1)
        listed = ", ".join(str(choice) for choice in choices)
        remedy = f"did you mean {near[0]}?" if near else f"choose one of: {listed}"
        return self.fault(path, f"{raw!r} is not one of {listed}", remedy)

    def sequence(self, hints: tuple[Any, ...], raw: Any, path: str, limits: Mapping[str, Any]) -> Any:
        if not isinstance(raw, list | tuple):
            return self.fault(path, f"is {_kind(raw)}, not a list", "write a list")
        if hints[-1] is Ellipsis:
            hints = (hints[0],) * len(raw)
            fewest, most = limits.get("min_items", 0), limits.get("max_items", len(raw))
            if not fewest <= len(raw) <= most:
                wanted = f"at least {fewest}" if len(raw) < fewest else f"at most {most}"
                return self.fault(path, f"has {len(raw)} items", f"it must have {wanted}")
        if len(raw) != len(hints):
            return self.fault(path, f"has {len(raw)} values", f"write a list of {len(hints)} values")
        pairs = enumerate(zip(hints, raw, strict=True))
        items = tuple(self.value(hint, item, f"{path}[{i}]", limits) for i, (hint, item) in pairs)
        return None if None in items else items

    def scalar(self, hint: Any, raw: Any, path: str, limits: Mapping[str, Any]) -> Any:
        allowed, words = _SCALARS[hint]
        # bool is an int in Python, but `steps: true` is a mistake
        if not isinstance(raw, allowed) or (isinstance(raw, bool) and hint is not bool):
            return self.fault(path, f"{raw!r} is {_kind(raw)}, not {words}", f"write {words}")
        for name, (holds, bound) in _BOUNDS.items():
            # `not holds` rather than the opposite comparison: NaN fails every bound
            if name in limits and not holds(raw, limits[name]):
                return self.fault(path, f"is {raw}", f"it must be {bound} {limits[name]:g}")
        if "pattern" in limits and (len(raw) > limits["max_length"] or not re.fullmatch(limits["pattern"], raw)):
            return self.fault(path, f"{raw!r} is not {limits['words']}", f"write {limits['words']}")
        return float(raw) if hint is float else raw


_SCALARS: dict[Any, tuple[Any, str]] = {
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a string"),
    bool: (bool, "true or false"),
}
_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "maximum": (operator.le, "at most"),
    "above": (operator.gt, "more than"),
    "below": (operator.lt, "less than"),
}


def _required(definition: Any) -> bool:
    return definition.default is dataclasses.MISSING and definition.default_factory is dataclasses.MISSING


def _kind(raw: Any) -> str:
    names = {bool: "a boolean", int: "a whole number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(raw), "an object" if isinstance(raw, Mapping) else type(raw).__name__)
