"""What children are built from in tests, and short ways into what was built."""

from typing import Any

from dtj_api.template import HOST_FEATURES
from dtj_api.validation import load_job_spec
from dtj_operator.children import Blueprint

Object = dict[str, Any]
EVERYTHING = frozenset(HOST_FEATURES)


def blueprint(attempt: int = 0, scrapers: tuple[str, ...] = (), modes: tuple[str, ...] = (), **spec: Any) -> Blueprint:
    loaded = load_job_spec({"workers": 2, **spec}, EVERYTHING)
    return Blueprint("ml", "gpt", "uid-1", attempt, loaded, "trainer:1", scrapers, modes)


def template(container: Object | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    trainer = {"name": "trainer", "image": "mine:1", **(container or {})}
    return {"metadata": metadata or {}, "spec": {"containers": [trainer], **spec}}


def trainer_of(built: Object) -> Object:
    found: Object = next(c for c in built["spec"]["containers"] if c["name"] == "trainer")
    return found


def variables(built: Object) -> dict[str, str]:
    return {v["name"]: v["value"] for v in trainer_of(built)["env"] if "value" in v}


OWNER = {
    "apiVersion": "dtj.dev/v1alpha1",
    "kind": "DistributedTrainingJob",
    "name": "gpt",
    "uid": "uid-1",
    "controller": True,
    "blockOwnerDeletion": True,
}
