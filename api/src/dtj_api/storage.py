"""Rules of `spec.checkpoint`, and which workers its volume ties to one node. Pure."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtj_api import names
from dtj_api.fields import FieldError
from dtj_api.spec import Checkpoint, JobSpec
from dtj_api.template import REQUIRED_TERMS, trainer_container, trainer_path

_TAKEN = ("/", "/tmp")
_UNKNOWN = object()


def checkpoint_errors(checkpoint: Checkpoint) -> Iterator[FieldError]:
    """Faults of `checkpoint` that no single field shows, whatever the job runs."""
    path = "spec.checkpoint"
    if (checkpoint.size is None) == (checkpoint.claim_name is None):
        problem = "has neither size nor claimName" if checkpoint.size is None else "has both size and claimName"
        remedy = "set size to have a volume claim created, or claimName to use yours"
        yield FieldError(path, problem, remedy)
    if checkpoint.size is None and (checkpoint.storage_class_name or checkpoint.access_modes):
        problem = "storageClassName and accessModes are of the claim that spec.checkpoint.size creates"
        yield FieldError(path, problem, "with claimName remove them")
    if posixpath.normpath(checkpoint.mount_path) in _TAKEN:
        remedy = "write an absolute path such as /checkpoints"
        yield FieldError(f"{path}.mountPath", f"{checkpoint.mount_path!r} cannot be used", remedy)
    if checkpoint.sub_path is not None and ".." in checkpoint.sub_path.split("/"):
        remedy = "write a relative path without '..', such as runs/gpt"
        yield FieldError(f"{path}.subPath", f"{checkpoint.sub_path!r} leads out of the volume", remedy)


def mount_errors(template: Mapping[str, Any], checkpoint: Checkpoint) -> Iterator[FieldError]:
    """Another volume in the place of the checkpoints'."""
    for i, mount in enumerate(trainer_container(template).get("volumeMounts", [])):
        if posixpath.normpath(mount.get("mountPath", "")) == posixpath.normpath(checkpoint.mount_path):
            path = f"{trainer_path(template)}.volumeMounts[{i}].mountPath"
            remedy = "remove it, or set another spec.checkpoint.mountPath"
            yield FieldError(path, f"{mount['mountPath']} is where spec.checkpoint is mounted", remedy)


def volume_modes(spec: JobSpec) -> tuple[str, ...]:
    """Access modes of the claim that `checkpoint.size` creates; () without one: a user's claim is not known here."""
    if spec.checkpoint is None or spec.checkpoint.size is None:
        return ()
    return spec.checkpoint.access_modes or ("ReadWriteOnce",)


def shares_one_node(spec: JobSpec, modes: Sequence[str]) -> bool:
    """Whether a volume of these access modes, () where unknown, ties all workers to one node: each mounts it, save
    with `training`, where worker 0 alone does."""
    every_worker_mounts = spec.checkpoint is not None and spec.training is None and spec.workers > 1
    return every_worker_mounts and bool(modes) and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes)


def storage_errors(spec: JobSpec, modes: Sequence[str], job: str | None = None) -> Iterator[FieldError]:
    """Why the workers of a valid job, called `job` if known, cannot all mount a volume of these access modes."""
    if not shares_one_node(spec, modes):
        return
    assert spec.checkpoint is not None
    own = spec.checkpoint.claim_name is None
    path = "spec.checkpoint.accessModes" if own else "spec.checkpoint.claimName"
    remedy = f"{'use' if own else 'name a claim with'} ReadWriteMany, or set workers: 1"
    if "ReadWriteOncePod" in modes:
        yield FieldError(path, f"a ReadWriteOncePod volume cannot be mounted by {spec.workers} workers", remedy)
        return
    for obstacle in _what_keeps_workers_apart(spec, job):
        problem = f"a ReadWriteOnce volume ties all {spec.workers} workers to one node, but {obstacle} keeps them apart"
        yield FieldError(path, problem, remedy)


def _what_keeps_workers_apart(spec: JobSpec, job: str | None) -> Iterator[str]:
    """Paths of what never lets two workers share a node."""
    if spec.network.host_network:
        yield "spec.network.hostNetwork"
    template = spec.template or {}
    pod = template.get("spec", {})
    labels = template.get("metadata", {}).get("labels", {}) | {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_JOB: _UNKNOWN if job is None else job,
        names.LABEL_ATTEMPT: _UNKNOWN,
        names.LABEL_WORKER: _UNKNOWN,
    }
    terms = pod.get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED_TERMS, [])
    for i, term in enumerate(terms):
        if _of_this_namespace(term) and _selects(term, labels):
            yield f"spec.template.spec.affinity.podAntiAffinity.{REQUIRED_TERMS}[{i}]"
    for i, spread in enumerate(pod.get("topologySpreadConstraints", [])):
        strict = spread.get("whenUnsatisfiable") == "DoNotSchedule" and spread.get("maxSkew", 1) < spec.workers
        if strict and _selects(spread, labels):
            yield f"spec.template.spec.topologySpreadConstraints[{i}]"


def _of_this_namespace(term: Mapping[str, Any]) -> bool:
    """Whether a term surely speaks of pods of its own pod's namespace."""
    if "namespaceSelector" in term:
        return not term["namespaceSelector"]
    return not term.get("namespaces")


def _selects(term: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a term about nodes surely selects the other workers, which have the same `labels`."""
    if term.get("topologyKey") != names.LABEL_NODE or "labelSelector" not in term:
        return False
    if term.get("mismatchLabelKeys") or names.LABEL_WORKER in term.get("matchLabelKeys", []):
        return False
    selector = term["labelSelector"]
    equal = all(key in labels and labels[key] == value for key, value in selector.get("matchLabels", {}).items())
    return equal and all(_holds(expression, labels) for expression in selector.get("matchExpressions", []))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = expression.get("key", ""), expression.get("values", [])
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) is not _UNKNOWN and labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
