"""Writes docs/reference/job.md from the CRD: `make generate`. Pure but for main."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
CRD = ROOT / "crds" / "dtj.dev_distributedtrainingjobs.yaml"
PAGE = ROOT / "docs" / "reference" / "job.md"

Schema = dict[str, Any]

INTRODUCTION = """\
<!-- Made by `make generate` from crds/dtj.dev_distributedtrainingjobs.yaml: change it there. -->
# The fields of a job

Every field of a DistributedTrainingJob (`dtj.dev/v1alpha1`), as `kubectl explain dtj.spec --recursive` lists them. A
test sends each example to an API server.

**Changes** says when a field may be changed: at *any time*; only *while suspended*, which is when the condition
Suspended is true ([`spec.suspend`](#specsuspend)); or *never*. A job of which nothing was made yet, because its spec
could not be honoured, may be corrected in any field but the last.
"""

STATUS_INTRODUCTION = """\
Written by the operator alone. [status.md](status.md) explains phases, conditions and reasons.

| field | type | meaning |
|---|---|---|
"""


@dataclass(frozen=True)
class Field:
    """One field of the schema. In `path`, `[]` follows a list whose items have fields of their own."""

    path: str
    schema: Schema
    required: bool

    @property
    def is_leaf(self) -> bool:
        """Whether its example is its own: an object's is its fields', an item's field's is its list's."""
        return "properties" not in self.schema and "[]" not in self.path


def fields(schema: Schema, path: str) -> Iterator[Field]:
    """All fields below `path`, in the order of the schema."""
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        yield Field(here, inner, name in schema.get("required", []))
        yield from fields(inner, here)
        yield from fields(inner.get("items", {}), f"{here}[]")


def root_schema(crd: Schema) -> Schema:
    """The schema of the whole resource."""
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nested(path: str, value: Any) -> Any:
    """
    >>> nested("spec.checkpoint.size", "1Gi")
    {'spec': {'checkpoint': {'size': '1Gi'}}}
    """
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def page(crd: Schema) -> str:
    """The whole page, Markdown."""
    root = root_schema(crd)
    changes = _changes(root)
    parts = [INTRODUCTION]
    parts += [_section(field, changes) for field in fields({"properties": {"spec": root["properties"]["spec"]}}, "")]
    rows = [_row(field) for field in fields(root["properties"]["status"], "status")]
    parts.append("## status\n\n" + STATUS_INTRODUCTION + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _changes(root: Schema) -> dict[str, str]:
    """When a field, and what is below it, may be changed, by path; read from the transition rules of the CRD."""
    found = {}
    for prefix, schema in (("", root), (".spec", root["properties"]["spec"])):
        for rule in schema.get("x-kubernetes-validations", []):
            if "oldSelf" in rule["rule"]:
                path = f"{prefix}{rule['fieldPath']}".removeprefix(".")
                found[path] = "while suspended" if "suspend it first" in rule["message"] else "never"
    return found


def _changes_of(path: str, changes: Mapping[str, str]) -> str:
    covering = [when for prefix, when in changes.items() if f"{path}.".startswith(f"{prefix}.")]
    if covering:
        return covering[0]
    below = [when for prefix, when in changes.items() if prefix.startswith(f"{path}.")]
    return "see its fields" if below else "any time"


def _section(field: Field, changes: Mapping[str, str]) -> str:
    path = field.path.removeprefix(".")
    depth = "##" if path.count(".") < 2 else "###"
    facts = [("Type", _type(field.schema))]
    if field.required:
        facts.append(("Required", "yes" if path.count(".") < 2 else f"in `{path.rpartition('.')[0]}`"))
    if field.schema.get("default", {}) != {}:
        facts.append(("Default", f"`{_inline(field.schema['default'])}`"))
    facts += [(name, words) for name, words in _limits(field.schema)]
    facts.append(("Changes", _changes_of(path, changes)))
    lines = [f"{depth} {path}", "", _text(field.schema["description"]), ""]
    lines += [" · ".join(f"**{name}** {words}" for name, words in facts), ""]
    rules = [rule for rule in field.schema.get("x-kubernetes-validations", []) if "oldSelf" not in rule["rule"]]
    lines += [*(_text(f"- Rule: {rule['message']}.") for rule in rules), ""] if rules else []
    if field.is_leaf:
        lines += ["```yaml", _yaml(nested(path, field.schema["example"])), "```", ""]
    return "\n".join(lines)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    return str(schema["type"])


def _limits(schema: Schema) -> Iterator[tuple[str, str]]:
    items = schema.get("items", {})
    for described in (schema, items):
        if "enum" in described:
            yield "One of", ", ".join(f"`{choice}`" for choice in described["enum"])
        if "minimum" in described or "maximum" in described:
            yield "Range", _range(described)
        if "format" in described and described["type"] == "string":
            yield "Format", described["format"]
    if "minItems" in schema or "maxItems" in schema:
        yield "Items", f"{schema.get('minItems', 0)} to {schema['maxItems']}"
    if "maxLength" in schema:
        yield "Length", f"at most {schema['maxLength']}"
    if "pattern" in schema:
        yield "Pattern", f"`{schema['pattern']}`"


def _range(schema: Schema) -> str:
    words = []
    if "minimum" in schema:
        words.append(f"{'more than' if schema.get('exclusiveMinimum') else 'from'} {schema['minimum']}")
    if "maximum" in schema:
        words.append(f"{'and less than' if schema.get('exclusiveMaximum') else 'to'} {schema['maximum']}")
    return " ".join(words)


def _row(field: Field) -> str:
    description = field.schema["description"].replace("|", "\\|").replace("<", "\\<")
    choices = [words for name, words in _limits(field.schema) if name == "One of"]
    return f"| `{field.path}` | {_type(field.schema)} | {description}{f' One of {choices[0]}.' if choices else ''} |"


def _inline(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=200).strip().removesuffix("\n...")


class _Manifest(yaml.SafeDumper):
    """YAML as people write it: objects as blocks, lists of plain values in brackets."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        plain = not any(isinstance(item, dict | list) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Manifest, sort_keys=False, default_flow_style=False, width=100).strip()


def _text(words: str) -> str:
    """Prose: what looks like a tag is none."""
    return "\n".join(textwrap.wrap(words.replace("<", "\\<"), 120, break_long_words=False, break_on_hyphens=False))


def main() -> None:
    PAGE.write_text(page(yaml.safe_load(CRD.read_text())))


if __name__ == "__main__":
    main()
