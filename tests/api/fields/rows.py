"""What a row of the table of fields says, and the small words the tables are written with. Nothing runs here."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.api.harness import TRAINING, Api, Object, variables

# of each child, by kind and name; what differs from attempt to attempt is masked
Children = Mapping[str, Object]
Look = Callable[[Children], Any]
Scene = Callable[[Api, str], str]


def nest(path: str, value: Any) -> Object:
    """
    >>> nest("checkpoint.size", "1Gi")
    {'checkpoint': {'size': '1Gi'}}
    """
    for name in reversed(path.split(".")):
        value = {name: value}
    nested: Object = value
    return nested


def merged(spec: Object, *changes: Object) -> Object:
    """`spec` after these JSON merge patches (RFC 7386)."""
    result = copy.deepcopy(spec)
    for change in changes:
        for name, value in change.items():
            if value is None:
                result.pop(name, None)
            elif isinstance(value, dict):
                kept = result.get(name)
                result[name] = merged(kept if isinstance(kept, dict) else {}, value)
            else:
                result[name] = value
    return result


def joined(*changes: Object) -> Object:
    """One merge patch that does what these do."""
    result: Object = {}
    for change in changes:
        for name, value in change.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = joined(result[name], value) if both else value
    return result


def undone(spec: Object, change: Object) -> Object:
    """The merge patch that brings `merged(spec, change)` back to `spec`."""
    undo: Object = {}
    for name, value in change.items():
        former = spec.get(name)
        undo[name] = undone(former, value) if isinstance(former, dict) and isinstance(value, dict) else former
    return undo


# two ranks in one pod: what is seen on a child is seen on the first
BASE: Object = {"workers": 1, "processesPerWorker": 2, "training": TRAINING}


@dataclass(frozen=True)
class Row:
    """One field: a change, and something that is refused. Both are merge patches of `base` + `given`.

    Attributes:
        path: of the field in the schema, below `spec`.
        says: a regular expression that what the user is told about `invalid` matches.
        given: what else must be in the spec for the field to make sense, before and after.
        name: tells rows of the same field apart.
    """

    path: str
    valid: Object
    invalid: Object
    says: str
    base: Object = field(default_factory=lambda: BASE)
    given: Object = field(default_factory=dict)
    name: str = ""

    @property
    def id(self) -> str:
        return f"{self.path}:{self.name}" if self.name else self.path

    @property
    def job(self) -> str:
        """A name for jobs of this row; no other row's begins with it."""
        letters = "".join(c.lower() if c.isalnum() else "-" for c in self.id)
        return f"{letters[-36:].strip('-')}-job"

    @property
    def former(self) -> Object:
        return merged(self.base, self.given)

    @property
    def changed(self) -> Object:
        return merged(self.former, self.valid)


@dataclass(frozen=True)
class ChildRow(Row):
    """A field that is seen on the children.

    Attributes:
        look: what of the children shows it.
        shows: what `look` finds after the change; something else before.
        anew: it is seen on a new job only: on attempt 0, or on a claim, which outlives attempts.
        same: there is nothing else to choose yet: the children do not change.
    """

    look: Look = field(kw_only=True)
    shows: Any = field(kw_only=True)
    anew: bool = False
    same: bool = False


@dataclass(frozen=True)
class RunRow(Row):
    """A field that is seen on the run.

    Attributes:
        scene: what happens to a job of which nothing runs yet; the outcome in a word or two.
        outcome: with the change.
        otherwise: without it.
        mutable: whether it may be changed while the job runs.
    """

    scene: Scene = field(kw_only=True)
    outcome: str = field(kw_only=True)
    otherwise: str = field(kw_only=True)
    mutable: bool = True


# looks


def pod(children: Children, worker: int = 0) -> Object:
    return children[f"Pod JOB-A-{worker}"]


def trainer(children: Children, worker: int = 0) -> Object:
    container: Object = pod(children, worker)["spec"]["containers"][0]
    return container


def config(path: str) -> Look:
    """A value of what the trainer is told in DTJ_CONFIG; None where it is told none."""

    def look(children: Children) -> Any:
        value: Any = json.loads(variables(pod(children))["DTJ_CONFIG"])
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    return look


def environment(*names: str) -> Look:
    return lambda children: tuple(variables(pod(children)).get(name) for name in names)


def claim(children: Children) -> Object:
    return children["PersistentVolumeClaim JOB-checkpoints"]


def claim_used(children: Children) -> Any:
    """Name of the claim that worker 0 mounts."""
    claims = [volume.get("persistentVolumeClaim") for volume in pod(children)["spec"]["volumes"]]
    return next((found["claimName"] for found in claims if found), None)


def checkpoint_mount(children: Children) -> Object:
    mounts = [mount for mount in trainer(children)["volumeMounts"] if mount["name"] == "checkpoints"]
    found: Object = mounts[0]
    return found
