"""The pod of one worker: the user's template, with what a rank needs added. Pure.

What the user wrote stays, save for what makes the gang a gang: host name, labels, restart policy, rank environment.
"""

import copy
import json
import posixpath
from collections.abc import Iterable
from typing import Any

from dtj_api import environment, names
from dtj_api.spec import encode_run_config, run_config
from dtj_api.validation import processes_per_worker, trainer_container

from dtj_operator.children.blueprint import Blueprint, Object

SCRATCH_PATH = "/tmp"
SHARED_MEMORY_PATH = "/dev/shm"
# long enough to save a checkpoint after SIGTERM
TRAINER_GRACE_SECONDS = 60
UNPRIVILEGED_USER = 1000


def build(blueprint: Blueprint, worker: int) -> Object:
    """The pod that worker `worker` should have."""
    template = copy.deepcopy(dict(blueprint.spec.template or {}))
    spec: Object = template.get("spec") or {"containers": [{"name": names.TRAINER_CONTAINER}]}
    container = _trainer(spec)
    _join_gang(spec, blueprint, worker)
    _tell_rank(container, blueprint, worker)
    _mount_scratch(spec, container)
    if blueprint.spec.training is None or worker == 0:
        _mount_checkpoints(spec, container, blueprint)
    if blueprint.spec.training is not None:
        container["image"] = container.get("image") or blueprint.trainer_image
        _mount_shared_memory(spec, container)
        _restrict(spec, container)
        spec.setdefault("terminationGracePeriodSeconds", TRAINER_GRACE_SECONDS)
        spec.setdefault("topologySpreadConstraints", [_spread(blueprint)])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(template.get("metadata") or {}, blueprint, worker),
        "spec": spec,
    }


def _trainer(spec: Object) -> Object:
    """The container of `spec` itself, to be changed in place."""
    found = trainer_container({"spec": spec})
    containers: list[Object] = spec["containers"]
    return next(container for container in containers if container is found)


def _metadata(given: Object, blueprint: Blueprint, worker: int) -> Object:
    metadata = blueprint.attempt_metadata(names.pod(blueprint.job, blueprint.attempt, worker))
    own_labels = metadata["labels"] | {names.LABEL_WORKER: str(worker)}
    metadata["labels"] = (given.get("labels") or {}) | own_labels
    annotations = given.get("annotations") or {}
    if blueprint.spec.training is not None:
        annotations = _prometheus(blueprint.spec.monitoring.port) | annotations
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _prometheus(port: int) -> dict[str, str]:
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port),
        "prometheus.io/path": names.METRICS_PATH,
    }


def _join_gang(spec: Object, blueprint: Blueprint, worker: int) -> None:
    spec["hostname"] = names.pod(blueprint.job, blueprint.attempt, worker)
    spec["subdomain"] = names.service(blueprint.job, blueprint.attempt)
    # a rank that died cannot rejoin: the gang is replaced as a whole
    spec["restartPolicy"] = "Never"
    spec.setdefault("automountServiceAccountToken", False)
    # one variable a service of the namespace: thousands in a busy one
    spec.setdefault("enableServiceLinks", False)


def _tell_rank(container: Object, blueprint: Blueprint, worker: int) -> None:
    variables = rank_environment(blueprint, worker)
    own = [{"name": name, "value": value} for name, value in variables.items()]
    # first, so that the user's own can refer to them: WORLD=$(WORLD_SIZE)
    container["env"] = own + (container.get("env") or [])
    port = {"name": names.METRICS_PORT_NAME, "containerPort": blueprint.spec.monitoring.port}
    ports = container.get("ports") or []
    if not any(p.get("name") == port["name"] or p.get("containerPort") == port["containerPort"] for p in ports):
        container["ports"] = [*ports, port]
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")


def rank_environment(blueprint: Blueprint, worker: int) -> dict[str, str]:
    """All that the trainer container of `worker` is told."""
    spec, job, attempt = blueprint.spec, blueprint.job, blueprint.attempt
    gang = environment.Gang(
        workers=spec.workers,
        processes=processes_per_worker(spec),
        worker=worker,
        master_addr=names.worker_host(job, attempt, 0, blueprint.namespace),
        master_port=names.MASTER_PORT,
    )
    variables = gang.pod_environment() | {
        environment.JOB: job,
        environment.NAMESPACE: blueprint.namespace,
        environment.ATTEMPT: str(attempt),
        environment.METRICS_PORT: str(spec.monitoring.port),
    }
    if spec.checkpoint is not None:
        variables[environment.CHECKPOINT_DIR] = spec.checkpoint.mount_path
    if spec.training is not None:
        variables[environment.CONFIG] = json.dumps(encode_run_config(run_config(spec)), separators=(",", ":"))
    return variables


def _mount_scratch(spec: Object, container: Object) -> None:
    _mount(spec, container, names.SCRATCH_VOLUME, {"emptyDir": {}}, SCRATCH_PATH)


def _mount_shared_memory(spec: Object, container: Object) -> None:
    """NCCL between the GPUs of a pod, and data loaders, need more than the 64 MiB of a container runtime. What is used
    counts towards the container's memory limit."""
    _mount(spec, container, names.SHARED_MEMORY_VOLUME, {"emptyDir": {"medium": "Memory"}}, SHARED_MEMORY_PATH)


def _mount_checkpoints(spec: Object, container: Object, blueprint: Blueprint) -> None:
    """On worker 0 alone for the built-in trainer: rank 0 reads and writes for all, and a ReadWriteOnce volume would
    tie the whole gang to one node."""
    checkpoint = blueprint.spec.checkpoint
    if checkpoint is not None:
        claim = checkpoint.claim_name or names.checkpoint_claim(blueprint.job)
        source = {"persistentVolumeClaim": {"claimName": claim}}
        _mount(spec, container, names.CHECKPOINT_VOLUME, source, checkpoint.mount_path)


def _mount(spec: Object, container: Object, wanted: str, source: Object, path: str) -> None:
    """Add a volume and its mount, unless the user mounts something there."""
    mounts = container.get("volumeMounts") or []
    if any(posixpath.normpath(mount.get("mountPath") or ".") == posixpath.normpath(path) for mount in mounts):
        return
    volumes = spec.get("volumes") or []
    name = _free_name(wanted, (volume.get("name") for volume in volumes))
    spec["volumes"] = [*volumes, {"name": name, **source}]
    container["volumeMounts"] = [*mounts, {"name": name, "mountPath": path}]


def _free_name(wanted: str, taken: Iterable[Any]) -> str:
    names_taken = set(taken)
    while wanted in names_taken:
        wanted = f"dtj-{wanted}"
    return wanted


def _restrict(spec: Object, container: Object) -> None:
    """What the `restricted` pod security standard asks for, where the user has not said otherwise."""
    pod = spec["securityContext"] = dict(spec.get("securityContext") or {})
    own = container["securityContext"] = dict(container.get("securityContext") or {})
    user = own.get("runAsUser", pod.get("runAsUser"))
    if user != 0:
        pod.setdefault("runAsNonRoot", True)
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        pod.setdefault(name, UNPRIVILEGED_USER)
    pod.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    own.setdefault("readOnlyRootFilesystem", True)
    capabilities = own["capabilities"] = dict(own.get("capabilities") or {})
    capabilities.setdefault("drop", ["ALL"])
    # the API server refuses these beside allowPrivilegeEscalation: false
    if not own.get("privileged") and "SYS_ADMIN" not in (capabilities.get("add") or []):
        own.setdefault("allowPrivilegeEscalation", False)


def _spread(blueprint: Blueprint) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": blueprint.attempt_selector()},
    }
