"""What cannot be made, or not yet: told in the status, curable where a cure is possible."""

import subprocess
import sys

import pytest
from dtj_api import names

from tests.api.harness import TRAINING, Api, Object, Operator, script


def test_invalid_spec_is_told_and_a_corrected_one_goes_on(api: Api, operator: Operator) -> None:
    wrong = {"workers": 2, "training": TRAINING | {"stepz": 3, "batch": {"global": 7}}}
    api.submit("gpt", wrong)
    message = api.until("gpt", "Created", "False", "InvalidSpec")["message"]
    assert "spec.training.stepz" in message
    assert api.status("gpt")["phase"] == "Invalid"
    assert not api.list("pods")
    assert not api.list("services")
    api.request("PATCH", api.path(names.PLURAL, "gpt"), {
        "spec": {"training": {"stepz": None, "batch": {"global": 8}}},
    })  # fmt: skip
    api.until("gpt", "Created")


BAD_TEMPLATES = {
    "reserved environment": ({"env": [{"name": "RANK", "value": "7"}]}, "InvalidSpec", "RANK is set by the operator"),
    "a field that is none": ({"resorces": {}}, "InvalidTemplate", 'unknown field "spec.containers[0].resorces"'),
    "a value that is none": ({"imagePullPolicy": "Sometimes"}, "InvalidTemplate", "imagePullPolicy"),
    "a quantity that is none": ({"resources": {"limits": {"cpu": "lots"}}}, "InvalidTemplate", "quantities must match"),
    "a mount without a volume": (
        {"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
        "InvalidTemplate",
        "volumeMounts",
    ),
    "a list that is none": ({"env": {"A": "1"}}, "InvalidSpec", "spec.template.spec.containers[0].env: is not a list"),
}


@pytest.mark.parametrize(("change", "reason", "words"), BAD_TEMPLATES.values(), ids=BAD_TEMPLATES.keys())
def test_bad_template_is_told_makes_nothing_and_can_be_corrected(
    api: Api, operator: Operator, change: Object, reason: str, words: str
) -> None:
    container = {"name": "trainer", "image": "example.test/mine:1"}
    template = {"spec": {"containers": [container | change]}}
    api.submit("gpt", {"workers": 2, "template": template, "checkpoint": {"size": "1Gi"}})
    assert words in api.until("gpt", "Created", "False", reason)["message"]
    assert api.status("gpt")["phase"] == "Invalid"
    for plural in ("pods", "services", "persistentvolumeclaims"):
        assert not api.list(plural)
    api.request("PATCH", api.path(names.PLURAL, "gpt"), {"spec": {"template": {"spec": {"containers": [container]}}}})
    api.until("gpt", "Created")


def test_missing_claim_is_waited_for(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(checkpoint={"claimName": "mine"}))
    message = api.until("gpt", "Created", "False", "ClaimNotFound")["message"]
    assert f"no PersistentVolumeClaim mine in namespace {api.namespace}" in message
    assert "spec.checkpoint.claimName" in message
    assert not api.list("pods")
    api.create("persistentvolumeclaims", {
        "metadata": {"name": "mine"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })  # fmt: skip
    api.until("gpt", "Created")
    claims = [volume.get("persistentVolumeClaim") for volume in api.pods("gpt")[1]["spec"]["volumes"]]
    assert {"claimName": "mine"} in claims


def test_quota_is_waited_for(api: Api, operator: Operator) -> None:
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    # no controller counts here: the status a quota needs is written by hand
    quota = api.get("resourcequotas", "q")
    assert quota is not None
    quota["status"] = {"hard": {"pods": "1"}, "used": {"pods": "1"}}
    api.request("PUT", api.path("resourcequotas", "q") + "/status", quota)
    api.submit("gpt", script())
    assert "exceeded quota" in api.until("gpt", "Created", "False", "QuotaExceeded")["message"]
    assert api.status("gpt")["phase"] == "Pending"
    api.delete("resourcequotas", "q")
    api.until("gpt", "Created")


def test_image_that_cannot_be_pulled_is_told_while_it_may_be_cured(api: Api, operator: Operator) -> None:
    api.submit("gpt", script())
    api.until("gpt", "Created")
    api.bind("gpt-0-1")
    api.set_pod("gpt-0-1", "Pending", {"waiting": {"reason": "ErrImagePull", "message": "not found"}})
    message = api.until("gpt", "Running", "False", "ImagePullFailed")["message"]
    assert "worker 1 (pod gpt-0-1, node n1): image example.test/mine:1 cannot be pulled: not found; push" in message
    assert api.status("gpt")["phase"] == "Pending"
    api.run_pod("gpt-0-0")
    api.set_pod("gpt-0-1", "Running", {"running": {}})
    api.until("gpt", "Running")


def test_pod_that_no_node_takes(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(workers=1))
    api.until("gpt", "Created")
    words = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    api.request("PATCH", api.path("pods", "gpt-0-0") + "/status", {"status": {"conditions": [unscheduled]}})
    assert "Insufficient nvidia.com/gpu" in api.until("gpt", "Running", "False", "Unschedulable")["message"]


def test_missing_trainer_image_is_one_clear_sentence() -> None:
    run = subprocess.run([sys.executable, "-m", "dtj_operator"], env={}, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("dtj-operator: DTJ_TRAINER_IMAGE is not set")
    assert run.stderr.count("\n") == 1
