"""Specs made at random from the schema: sound ones with a few changes, of which some are sound and most are odd."""

import copy
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import strategies as st

from docs.generate_reference import CRD, fields, root_schema
from tests.api.fields.rows import BASE
from tests.api.fields.table import ROWS
from tests.api.harness import Object

SCHEMA = root_schema(yaml.safe_load(CRD.read_text()))["properties"]["spec"]
# every place of a pod template that rules or builders look at
TEMPLATE: Object = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "hostNetwork": False,
        "hostname": "h",
        "subdomain": "s",
        "restartPolicy": "Never",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsUser": 5},
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/x"}}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {
                            "matchLabels": {"a": "b"},
                            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                        },
                        "namespaceSelector": {},
                    }
                ]
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": "b"}},
                "matchLabelKeys": ["a"],
            }
        ],
        "initContainers": [{"name": "i", "image": "x", "securityContext": {"privileged": False}}],
        "containers": [
            {
                "name": "trainer",
                "image": "i",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                "ports": [{"name": "p", "containerPort": 1}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "1"}},
                "securityContext": {"capabilities": {"add": ["X"], "drop": ["Y"]}, "runAsUser": 0},
            },
            {"name": "other", "image": "j"},
        ],
    },
}
FROM_TABLE: list[Object] = [spec for row in ROWS for spec in (row.former, row.changed)]
RICH: list[Object] = [
    {"workers": 2, "processesPerWorker": "auto", "template": TEMPLATE},
    {"workers": 3, "template": TEMPLATE, "network": {"hostNetwork": True}, "checkpoint": {"claimName": "mine"}},
    {"workers": 1, "template": TEMPLATE, "checkpoint": {"size": "1Gi"}, "training": BASE["training"]},
]
ODD_WORDS = ["", " ", "auto", "never", "None", "true", "-1", "1e3", "NaN", "RANK", "../x", "/", "é", "\u0000", "\n"]
ODD_WORDS += ["x" * 5000]
ODD_KEYS = [*ODD_WORDS, "name", "spec", "worker", "hostPID", "privileged", "size"]
odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 1, 2**31, 2**63, -(10**30), 0.5, -0.0, 1e300])
    | st.sampled_from(ODD_WORDS)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ODD_KEYS), inner, max_size=3),
    max_leaves=4,
)


def sound_values(schema: Object) -> st.SearchStrategy[Any]:
    """What the schema of a field allows, its cross-field rules aside."""
    likely = [schema[key] for key in ("example", "default") if key in schema]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(1, 256) | st.sampled_from(["auto", "never"])
    if schema["type"] == "integer":
        low = schema.get("minimum", 0)
        return st.sampled_from([*likely, low]) | st.integers(low, schema.get("maximum", 2**31 - 1))
    if schema["type"] == "number":
        low = schema.get("minimum", 0)
        return st.sampled_from([*likely, low]) | st.floats(low, schema.get("maximum", 10), width=32)
    if schema["type"] == "boolean":
        return st.booleans()
    if schema["type"] == "array":
        return st.lists(sound_values(schema["items"]), min_size=schema.get("minItems", 0), max_size=3)
    if schema["type"] == "object":
        return _sound_object(schema, likely)
    return st.sampled_from(likely) if likely else st.text(max_size=schema.get("maxLength", 8))


def _sound_object(schema: Object, likely: list[Any]) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        return st.sampled_from([*likely, TEMPLATE])
    known = {name: sound_values(inner) for name, inner in schema["properties"].items()}
    required = {name: known.pop(name) for name in schema.get("required", [])}
    return st.fixed_dictionaries(required, optional=known)


FIELDS: list[tuple[list[str], st.SearchStrategy[Any]]] = [
    (field.path.removeprefix(".").split("."), sound_values(field.schema))
    for field in fields(SCHEMA, "")
    if "[]" not in field.path
]


@st.composite
def specs(draw: st.DrawFn) -> Any:
    """A spec, or now and then something else entirely.

    What is drawn is copied: it may be changed further, and strategies hand out the same objects again.
    """
    spec: Any = copy.deepcopy(draw(st.sampled_from(FROM_TABLE) | st.sampled_from(RICH)))
    for _ in range(draw(st.integers(0, 4))):
        spec = draw(st.sampled_from(CHANGES))(draw, spec)
    return spec


def _sound_change(draw: st.DrawFn, spec: Any) -> Any:
    path, values = draw(st.sampled_from(FIELDS))
    target = spec
    for name in path[:-1]:
        if not isinstance(target, dict):
            return spec
        target = target.setdefault(name, {})
    if isinstance(target, dict):
        target[path[-1]] = copy.deepcopy(draw(values))
    return spec


def _odd_change(draw: st.DrawFn, spec: Any) -> Any:
    return _with(spec, _place(draw, spec), copy.deepcopy(draw(odd_values)))


def _removal(draw: st.DrawFn, spec: Any) -> Any:
    *path, last = _place(draw, spec) or [None]
    if last is not None:
        del _at(spec, path)[last]
    return spec


def _extra_key(draw: st.DrawFn, spec: Any) -> Any:
    target = _at(spec, _place(draw, spec))
    if isinstance(target, dict):
        target[draw(st.sampled_from(ODD_KEYS))] = copy.deepcopy(draw(odd_values))
    return spec


CHANGES: list[Callable[[st.DrawFn, Any], Any]] = [_sound_change, _sound_change, _odd_change, _removal, _extra_key]


def _place(draw: st.DrawFn, spec: Any) -> list[Any]:
    """The way to some place below `spec`; [] is `spec` itself."""
    path: list[Any] = []
    value = spec
    while isinstance(value, dict | list) and value:
        # one in twelve stops early: most places are leaves
        if path and draw(st.integers(0, 11)) == 0:
            break
        keys = sorted(value, key=str) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        path.append(key)
        value = value[key]
    return path


def _at(spec: Any, path: list[Any]) -> Any:
    for key in path:
        spec = spec[key]
    return spec


def _with(spec: Any, path: list[Any], value: Any) -> Any:
    if not path:
        return value
    _at(spec, path[:-1])[path[-1]] = value
    return spec
