"""The hand-written CRD and the types of dtj_api say the same: fields, required, defaults, bounds, choices."""

import dataclasses
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from dtj_api import names
from dtj_api.fields import decode, encode, manifest_name
from dtj_api.spec import JobSpec
from dtj_api.status import JobStatus

ROOT = Path(__file__).parents[3]
CRD_FILE = ROOT / "crds" / "dtj.dev_distributedtrainingjobs.yaml"
CRD = yaml.safe_load(CRD_FILE.read_text())
VERSION = CRD["spec"]["versions"][0]
PROPERTIES = VERSION["schema"]["openAPIV3Schema"]["properties"]
LENGTHS = {"minItems": "min_items", "maxItems": "max_items", "maxLength": "max_length"}
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


@dataclasses.dataclass(frozen=True)
class Pair:
    """One field in both worlds."""

    path: str
    schema: dict[str, Any]
    hint: Any
    definition: "dataclasses.Field[Any]"


def pairs(cls: type, schema: dict[str, Any], path: str) -> Iterator[Pair]:
    hints = typing.get_type_hints(cls)
    for definition in dataclasses.fields(cls):
        name = manifest_name(definition.name)
        here = f"{path}.{name}"
        hint = without_none(hints[definition.name])
        inner = schema.get("properties", {}).get(name, {})
        yield Pair(here, inner, hint, definition)
        if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(typing.get_args(hint)[0]):
            yield from pairs(typing.get_args(hint)[0], inner["items"], f"{here}[]")
        if dataclasses.is_dataclass(hint):
            yield from pairs(typing.cast(type, hint), inner, here)


def without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [a for a in typing.get_args(hint) if a is not types.NoneType]
        return members[0] if len(members) == 1 else hint
    return hint


def schema_at(path: str) -> dict[str, Any]:
    """The schema of a list's items is what holds its fields."""
    if not path.endswith("[]"):
        return PROPERTIES["spec"] if path == "spec" else BY_PATH[path].schema
    return typing.cast("dict[str, Any]", BY_PATH[path.removesuffix("[]")].schema["items"])


def schema_paths(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from schema_paths(inner, f"{path}.{name}")
        yield from schema_paths(inner.get("items", {}), f"{path}.{name}[]")


ALL = [*pairs(JobSpec, PROPERTIES["spec"], "spec"), *pairs(JobStatus, PROPERTIES["status"], "status")]
BY_PATH = {pair.path: pair for pair in ALL}


def test_names_are_those_of_the_contract() -> None:
    assert CRD["spec"]["group"] == names.GROUP
    assert VERSION["name"] == names.VERSION
    assert CRD["spec"]["names"]["plural"] == names.PLURAL
    assert CRD["spec"]["names"]["kind"] == names.KIND
    assert CRD["spec"]["names"]["shortNames"] == [names.SHORT_NAME]
    assert f"<= {names.JOB_NAME_MAX_LENGTH} " in str(VERSION["schema"]["openAPIV3Schema"]["x-kubernetes-validations"])


def test_the_schema_has_the_fields_of_the_types_and_no_other() -> None:
    in_schema = {*schema_paths(PROPERTIES["spec"], "spec"), *schema_paths(PROPERTIES["status"], "status")}
    assert in_schema == set(BY_PATH)


@pytest.mark.parametrize("path", BY_PATH)
def test_every_field_is_described(path: str) -> None:
    assert len(BY_PATH[path].schema["description"]) > 15


@pytest.mark.parametrize("path", BY_PATH)
def test_type_and_choices_agree(path: str) -> None:
    pair = BY_PATH[path]
    schema, hint = pair.schema, pair.hint
    if schema.get("x-kubernetes-int-or-string"):
        number, words = typing.get_args(hint)
        assert number is int
        rule = schema["x-kubernetes-validations"][0]["rule"]
        assert all(f"self == '{word}'" in rule for word in typing.get_args(words))
    elif typing.get_origin(hint) is Literal:
        assert (schema["type"], tuple(schema["enum"])) == ("string", typing.get_args(hint))
    elif typing.get_origin(hint) is tuple:
        assert schema["type"] == "array"
    elif hint in TYPES:
        assert schema["type"] == TYPES[hint]
    else:
        assert schema["type"] == "object"


@pytest.mark.parametrize("path", [path for path in BY_PATH if path.startswith("spec")])
def test_bounds_agree(path: str) -> None:
    pair = BY_PATH[path]
    if pair.schema.get("x-kubernetes-int-or-string"):
        assert not pair.schema.keys() & {"minimum", "maximum"}
        rule = pair.schema["x-kubernetes-validations"][0]["rule"]
        assert "self >= {minimum} && self <= {maximum}".format(**pair.definition.metadata) in rule
        return
    schema = pair.schema.get("items", pair.schema)
    ours = dict(pair.definition.metadata)
    if pair.definition.name == "betas":
        ours |= {"min_items": 2, "max_items": 2}  # its type says so
    found = {name: pair.schema[key] for key, name in LENGTHS.items() if key in pair.schema}
    if "pattern" in pair.definition.metadata:
        assert pair.schema["pattern"] == f"^{pair.definition.metadata['pattern']}$"
        found |= {name: pair.definition.metadata[name] for name in ("pattern", "words")}
    for bound, exclusive, name in (("minimum", "above", "minimum"), ("maximum", "below", "maximum")):
        if bound in schema:
            found[exclusive if schema.get(f"exclusive{bound.capitalize()}") else name] = schema[bound]
    assert found == ours


@pytest.mark.parametrize("path", [path for path in BY_PATH if path.startswith("spec")])
def test_default_and_required_agree(path: str) -> None:
    pair = BY_PATH[path]
    parent, name = path.rsplit(".", 1)
    container = schema_at(parent)
    required = pair.definition.default is dataclasses.MISSING
    assert (name in container.get("required", [])) == required
    if dataclasses.is_dataclass(pair.hint):
        # an absent object and an empty one mean the same: its own fields hold the defaults
        default = pair.definition.default
        if default is not None and not required:
            assert default == decode(pair.hint, {}, path)
    elif not required:
        default = encode(pair.definition.default)
        # an absent list and an empty one mean the same
        assert pair.schema.get("default") == (None if default == [] else default)


def test_everything_below_training_keeps_unknown_keys_so_that_the_operator_can_name_them() -> None:
    def check(schema: dict[str, Any], path: str) -> None:
        if schema.get("type") == "object":
            assert schema.get("x-kubernetes-preserve-unknown-fields"), path
        for name, inner in schema.get("properties", {}).items():
            check(inner, f"{path}.{name}")

    check(PROPERTIES["spec"]["properties"]["training"], "spec.training")
