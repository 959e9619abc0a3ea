"""What is mounted in a trainer container, and where its volume ties the pod. Pure."""

import posixpath
from collections.abc import Iterable
from typing import Any

from dtj_api import names
from dtj_api.storage import shares_one_node, volume_modes
from dtj_api.template import REQUIRED_TERMS

from dtj_operator.children.blueprint import Blueprint, Object

SCRATCH_PATH = "/tmp"
SHARED_MEMORY_PATH = "/dev/shm"


def mount_scratch(spec: Object, container: Object) -> None:
    _mount(spec, container, names.SCRATCH_VOLUME, {"emptyDir": {}}, {"mountPath": SCRATCH_PATH})


def mount_shared_memory(spec: Object, container: Object) -> None:
    """NCCL between the GPUs of a pod, and data loaders, need more than the 64 MiB of a container runtime. What is used
    counts towards the container's memory limit."""
    source = {"emptyDir": {"medium": "Memory"}}
    _mount(spec, container, names.SHARED_MEMORY_VOLUME, source, {"mountPath": SHARED_MEMORY_PATH})


def mount_checkpoints(spec: Object, container: Object, blueprint: Blueprint, worker: int) -> None:
    """On worker 0 alone for the built-in trainer: rank 0 reads and writes for all, and a ReadWriteOnce volume would
    tie the whole gang to one node."""
    checkpoint = blueprint.spec.checkpoint
    if checkpoint is None or (blueprint.spec.training is not None and worker != 0):
        return
    claim = checkpoint.claim_name or names.checkpoint_claim(blueprint.job)
    mount = {"mountPath": checkpoint.mount_path}
    if checkpoint.sub_path is not None:
        mount["subPath"] = checkpoint.sub_path
    _mount(spec, container, names.CHECKPOINT_VOLUME, {"persistentVolumeClaim": {"claimName": claim}}, mount)
    if shares_one_node(blueprint.spec, volume_modes(blueprint.spec) or blueprint.volume_modes):
        _keep_together(spec, blueprint)


def _keep_together(spec: Object, blueprint: Blueprint) -> None:
    """All pods of the attempt on one node. The first is placed freely: a term that selects its own pod asks for no
    other before there is one."""
    affinity = spec["affinity"] = dict(spec.get("affinity", {}))
    pod_affinity = affinity["podAffinity"] = dict(affinity.get("podAffinity", {}))
    own = {"topologyKey": names.LABEL_NODE, "labelSelector": {"matchLabels": blueprint.attempt_selector()}}
    pod_affinity[REQUIRED_TERMS] = [*pod_affinity.get(REQUIRED_TERMS, []), own]


def _mount(spec: Object, container: Object, wanted: str, source: Object, mount: Object) -> None:
    """Add a volume and its mount, unless the user mounts something there."""
    path = posixpath.normpath(mount["mountPath"])
    mounts = container.get("volumeMounts", [])
    if any(posixpath.normpath(given.get("mountPath", ".")) == path for given in mounts):
        return
    volumes = spec.get("volumes", [])
    name = _free_name(wanted, (volume.get("name") for volume in volumes))
    spec["volumes"] = [*volumes, {"name": name, **source}]
    container["volumeMounts"] = [*mounts, {"name": name, **mount}]


def _free_name(wanted: str, taken: Iterable[Any]) -> str:
    names_taken = set(taken)
    while wanted in names_taken:
        wanted = f"dtj-{wanted}"
    return wanted
