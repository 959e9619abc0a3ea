"""Manifests of jobs: the examples, and small ones made for a test."""

from pathlib import Path
from typing import Any

import yaml
from dtj_api import names

EXAMPLES = Path(__file__).parents[2] / "examples"

Object = dict[str, Any]

# Without a limit each rank would start a thread for every core of the machine, and all of them would spin.
# The request is small: half a gang that waits for room would wait for another test's half.
ONE_CORE = {"name": "trainer", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "50m"}}}


def example(name: str) -> Object:
    """A manifest of examples/."""
    loaded = yaml.safe_load((EXAMPLES / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


def script_job(name: str, image: str, script: str, *, workers: int = 2, pod: Object | None = None) -> Object:
    """A job that runs a Python script in `image`."""
    container = {"name": "trainer", "image": image, "command": ["python", "-c", script]}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"workers": workers, "template": {"spec": {"containers": [container], **(pod or {})}}},
    }


def apart(job: str) -> Object:
    """Pod fields that put the workers of a job on nodes of their own."""
    mates = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {names.LABEL_JOB: job}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [mates]}}}


def claim(name: str, **spec: Any) -> Object:
    """A small claim of the user's own."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": wanted | spec,
    }


def inspector(image: str, claim: str, command: list[str]) -> Object:
    """A pod beside the job that mounts its claim."""
    mount = {"name": "c", "mountPath": "/checkpoints"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inspector"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "inspector", "image": image, "command": command, "volumeMounts": [mount]}],
            "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def gpt_job(name: str, *, workers: int = 2, **training: Any) -> Object:
    """A training job small enough to share two cores: 1 process a worker, of one thread, no checkpoint."""
    settings: Object = {
        "model": {"name": "gpt", "size": "tiny"},
        "data": {"text": "tinydocs", "sequenceLength": 32},
        "steps": 200,
        "batch": {"global": 8},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"workers": workers, "training": settings | training, "template": {"spec": {"containers": [ONE_CORE]}}},
    }
