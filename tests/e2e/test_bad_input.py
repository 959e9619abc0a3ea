"""What users get wrong: one clear message in the status, and nothing lost."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from dtj_api import names
from dtj_testbed.cluster import Cluster

from tests.e2e.jobs import claim, gpt_job, script_job
from tests.e2e.namespace import Namespace


def test_a_bad_image_is_named_while_the_job_waits(namespace: Namespace) -> None:
    namespace.apply(script_job("typo", "localhost:5001/no-such-image:1", "pass", workers=1))
    waiting = lambda: namespace.condition("typo", "Running").get("reason") == "ImagePullFailed"  # noqa: E731
    namespace.until("the bad image to be seen", waiting, 120)
    message = namespace.condition("typo", "Running")["message"]
    assert "localhost:5001/no-such-image:1" in message
    assert "worker 0" in message
    assert namespace.status("typo")["phase"] == "Pending"


def test_a_missing_folder_of_text_is_named(namespace: Namespace) -> None:
    namespace.apply(gpt_job("nodata", data={"text": "/data/books", "sequenceLength": 32}))
    namespace.until_phase("nodata", "Failed")
    failed = namespace.condition("nodata", "Failed")
    assert failed["reason"] == "DataNotFound"
    assert "spec.training.data.text" in failed["message"]
    assert "/data/books" in failed["message"]


def test_a_checkpoint_of_another_model_is_refused_and_kept(namespace: Namespace) -> None:
    first = gpt_job("first", workers=1, steps=5)
    second = gpt_job("second", workers=1, steps=10, model={"name": "gpt", "size": "mini"})
    third = gpt_job("third", workers=1, steps=10)
    for job in (first, second, third):
        job["spec"]["checkpoint"] = {"claimName": "shared"}
    namespace.apply(claim("shared"), first)
    namespace.until_phase("first", "Succeeded")
    namespace.apply(second)
    namespace.until_phase("second", "Failed")
    failed = namespace.condition("second", "Failed")
    assert failed["reason"] == "CheckpointMismatch"
    assert "spec.training.model" in failed["message"]
    namespace.apply(third)
    done = namespace.until_phase("third", "Succeeded")
    assert done["progress"]["step"] == 10
    resumed = namespace.kubectl("logs", names.pod("third", 0, 0))
    assert '"step": 5' in resumed, "the third job did not go on from the first one's checkpoint"


@pytest.fixture
def small_volume(namespace: Namespace) -> Iterator[str]:
    """A claim bound to 256 KiB that are really all there is: a tmpfs on a node."""
    cluster = Cluster.running()
    node = cluster.nodes[-1]
    folder = f"/mnt/{namespace.name}"
    cluster.exec_on_node(node, "sh", "-c", f"mkdir -p {folder} && mount -t tmpfs -o size=256k,mode=777 none {folder}")
    namespace.apply(*volume_and_claim(namespace.name, node, folder))
    yield "small"
    subprocess.run(["kubectl", "delete", "pv", namespace.name, "--wait=false"], check=True)
    cluster.exec_on_node(node, "sh", "-c", f"umount -l {folder}; rmdir {folder}")


def volume_and_claim(name: str, node: str, folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            "claimRef": {"namespace": name, "name": "small"},
        },
    }
    resources = {"requests": {"storage": "1Mi"}}
    return volume, claim("small", storageClassName="", volumeName=name, resources=resources)


def test_a_full_volume_is_named_with_the_space_it_has(namespace: Namespace, small_volume: str) -> None:
    job = gpt_job("full", workers=1, steps=50)
    job["spec"]["checkpoint"] = {"claimName": small_volume, "everySteps": 5}
    namespace.apply(job)
    namespace.until_phase("full", "Failed")
    failed = namespace.condition("full", "Failed")
    assert failed["reason"] == "StorageFull", json.dumps(failed)
    assert "/checkpoints" in failed["message"]
    assert "spec.checkpoint" in failed["message"]


def test_a_missing_claim_is_named_and_the_job_goes_on_when_it_appears(namespace: Namespace) -> None:
    job = gpt_job("patient", workers=1, steps=5)
    job["spec"]["checkpoint"] = {"claimName": "later"}
    namespace.apply(job)
    missing = lambda: namespace.condition("patient", "Created").get("reason") == "ClaimNotFound"  # noqa: E731
    namespace.until("the missing claim to be seen", missing, 60)
    assert "spec.checkpoint.claimName" in namespace.condition("patient", "Created")["message"]
    namespace.apply(claim("later"))
    namespace.until_phase("patient", "Succeeded")
