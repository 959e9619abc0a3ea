"""The reference page of the job is the CRD's, and every field has an example that holds."""

from typing import Any

import pytest
import yaml
from dtj_api.template import HOST_FEATURES
from dtj_api.validation import load_job_spec

from docs.generate_reference import CRD, PAGE, fields, nested, page, root_schema
from tests.api.fields.table import spec_with

ROOT = root_schema(yaml.safe_load(CRD.read_text()))
FIELDS = [*fields(ROOT["properties"]["spec"], "spec")]
LEAVES = {field.path.removeprefix("spec."): field for field in FIELDS if field.is_leaf}


def paths(value: Any, path: str) -> set[str]:
    """Of all that `value` has, in the form of `Field.path`."""
    if isinstance(value, dict):
        return {path}.union(*(paths(item, f"{path}.{name}") for name, item in value.items()))
    if isinstance(value, list):
        return {path}.union(*(paths(item, f"{path}[]") for item in value))
    return {path}


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(yaml.safe_load(CRD.read_text())), "run: make generate"


@pytest.mark.parametrize("path", LEAVES)
def test_every_field_has_an_example_that_is_not_its_default(path: str) -> None:
    schema = LEAVES[path].schema
    assert "example" in schema, f"add `example:` to spec.{path} in {CRD.name}"
    only_choice = len(schema.get("enum", [])) == 1
    assert only_choice or schema["example"] != schema.get("default")


def test_every_field_of_an_item_is_in_its_lists_example() -> None:
    shown = set().union(*(paths(field.schema["example"], field.path) for field in LEAVES.values()))
    assert {field.path for field in FIELDS if "[]" in field.path} <= shown


@pytest.mark.parametrize("path", LEAVES)
def test_examples_hold(path: str) -> None:
    load_job_spec(spec_with(path, LEAVES[path].schema["example"]), allowed=frozenset(HOST_FEATURES))


def test_page_says_when_a_field_can_be_changed() -> None:
    text = page({"spec": {"versions": [{"schema": {"openAPIV3Schema": ROOT}}]}})
    when = {name: text.split(f"# spec.{name}\n")[1].split("**Changes** ")[1].split("\n")[0] for name in LEAVES}
    assert when["workers"] == when["template"] == when["training.seed"] == when["monitoring.port"] == "while suspended"
    assert when["suspend"] == when["restart.policy"] == when["monitoring.progressSeconds"] == "any time"
    assert when["managedBy"] == "never"


def test_bounds_and_nesting_are_told() -> None:
    number = {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 2, "description": "x", "example": 1}
    spec = {"type": "object", "description": "s", "properties": {"a": number}}
    root = {"properties": {"spec": spec, "status": {"properties": {}}}}
    text = page({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}})
    assert "**Range** more than 0 to 2" in text
    assert "spec:\n  a: 1" in text
    assert nested("a.b", 1) == {"a": {"b": 1}}
