"""The volume claim for checkpoints. Pure."""

from dtj_api import names

from dtj_operator.children.blueprint import Blueprint, Object


def build(blueprint: Blueprint) -> Object | None:
    """The claim that `checkpoint.size` asks for; it outlives attempts and goes with the job."""
    checkpoint = blueprint.spec.checkpoint
    if checkpoint is None or checkpoint.size is None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": blueprint.job_metadata(names.checkpoint_claim(blueprint.job)),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": checkpoint.size}},
        },
    }
