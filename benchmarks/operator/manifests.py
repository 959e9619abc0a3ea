"""The same gang of workers for every contender, in the words of each. Pure."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

import orjson
from dtj_api import names
from dtj_api.spec import JobSpec
from dtj_api.validation import load_job_spec
from dtj_operator.children import Blueprint, pods
from dtj_operator.children.service import build as service

Object = dict[str, Any]

NAMESPACE = "bench"
_CONTAINER: Object = {
    "name": "trainer",
    "image": "example.test/train:1",
    "command": ["python", "train.py", "--config", "/etc/train.json"],
    "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
}


def template(container: str = "trainer", **more: str) -> Object:
    """A pod template with one container of that name."""
    return {"spec": {"containers": [copy.deepcopy(_CONTAINER) | {"name": container}], **more}}


def dtj(name: str, workers: int) -> Object:
    """A restart follows at once, as JobSet's do."""
    spec = {"workers": workers, "template": template(), "restart": {"backoffSeconds": 0}}
    return _object(names.API_VERSION, names.KIND, name, spec)


def dtj_open(name: str, workers: int) -> Object:
    """The same without the network policy, which no peer makes."""
    job = dtj(name, workers)
    job["spec"]["network"] = {"policy": "Open"}
    return job


def jobset(name: str, workers: int) -> Object:
    """With the defaults that JobSet's webhook would fill in."""
    job = {
        "parallelism": workers,
        "completions": workers,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": template(restartPolicy="Never"),
    }
    spec = {
        "failurePolicy": {"maxRestarts": 6},
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}],
    }
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec)


def pytorchjob(name: str, workers: int) -> Object:
    replica = {"restartPolicy": "ExitCode", "template": template("pytorch")}
    replicas = {"Master": {"replicas": 1, **replica}}
    if workers > 1:
        replicas["Worker"] = {"replicas": workers - 1, **replica}
    return _object("kubeflow.org/v1", "PyTorchJob", name, {"pytorchReplicaSpecs": replicas})


def floor(jobs: int, workers: int, owner_uid: str, *, services: bool) -> Iterator[tuple[str, bytes]]:
    """What our operator creates for those jobs, and nothing else: path and body of each object, in order.

    Args:
        owner_uid: of the config map `floor` that stands in for the jobs: garbage collection asks for the owner.
    """
    for number in range(jobs):
        job = blueprint(f"job-{number}", workers, owner_uid)
        made = [*([service(job)] if services else []), *pods(job, range(workers))]
        for manifest in made:
            owner = manifest["metadata"]["ownerReferences"][0]
            owner |= {"apiVersion": "v1", "kind": "ConfigMap", "name": "floor"}
            plural = manifest["kind"].lower() + "s"
            yield f"/api/v1/namespaces/{NAMESPACE}/{plural}", orjson.dumps(manifest)


def blueprint(name: str, workers: int = 2, owner_uid: str = "0") -> Blueprint:
    """What our operator makes the children of such a job from."""
    return Blueprint(NAMESPACE, name, owner_uid, 0, _spec(workers), trainer_image="")


@functools.cache
def _spec(workers: int) -> JobSpec:
    return load_job_spec(dtj("floor", workers)["spec"], allowed=frozenset())


def failed_status(pod: Object, now: str) -> Object:
    """Its only container was killed, as its node would tell it."""
    container = pod["spec"]["containers"][0]
    ended = {"exitCode": 137, "reason": "Error", "startedAt": now, "finishedAt": now}
    status = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    return {"status": {"phase": "Failed", "containerStatuses": [status]}}


def _object(api: str, kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
