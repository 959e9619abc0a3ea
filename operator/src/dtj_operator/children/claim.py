"""The volume claim for checkpoints. Pure."""

from dtj_api import names
from dtj_api.storage import volume_modes

from dtj_operator.children.blueprint import Blueprint, Object


def build(blueprint: Blueprint) -> Object | None:
    """The claim that `checkpoint.size` asks for; it outlives attempts, and with `retain: Retain` the job."""
    checkpoint = blueprint.spec.checkpoint
    if checkpoint is None or checkpoint.size is None:
        return None
    spec: Object = {
        "accessModes": list(volume_modes(blueprint.spec)),
        "resources": {"requests": {"storage": checkpoint.size}},
    }
    if checkpoint.storage_class_name is not None:
        spec["storageClassName"] = checkpoint.storage_class_name
    name = names.checkpoint_claim(blueprint.job)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": blueprint.job_metadata(name, owned=checkpoint.retain == "Delete"),
        "spec": spec,
    }
