"""Where the volume of the checkpoints ties the workers, what lies on it, and how long it stays."""

from typing import Any

import pytest
from dtj_api import names

from tests.e2e.jobs import apart, inspector, script_job
from tests.e2e.namespace import Namespace

WRITE = """
import os, pathlib
pathlib.Path(os.environ["DTJ_CHECKPOINT_DIR"], "rank-" + os.environ["RANK"]).write_text("")
"""


def writers(name: str, image: str, *, pod: dict[str, Any] | None = None, **checkpoint: Any) -> dict[str, Any]:
    """A job whose two workers write to one volume."""
    made = script_job(name, image, WRITE, pod=pod)
    made["spec"]["checkpoint"] = {"size": "10Mi", **checkpoint}
    return made


def test_workers_share_a_node_with_their_volume_which_outlives_the_job_if_asked(
    namespace: Namespace, operator_image: str
) -> None:
    namespace.apply(
        writers("kept", operator_image, subPath="runs/one", retain="Retain"), writers("gone", operator_image)
    )
    for job in ("kept", "gone"):
        namespace.until_phase(job, "Succeeded")
        assert len({namespace.pod(job, worker)["spec"]["nodeName"] for worker in range(2)}) == 1
    namespace.kubectl("delete", "dtj", "kept", "gone")
    namespace.until("the claim of the job to go", lambda: not namespace.get("pvc", names.checkpoint_claim("gone")), 60)

    kept = names.checkpoint_claim("kept")
    namespace.apply(inspector(operator_image, kept, ["find", "/checkpoints", "-type", "f"]))
    namespace.until_pod_succeeds("inspector")
    found = namespace.kubectl("logs", "inspector").split()
    assert sorted(found) == ["/checkpoints/runs/one/rank-0", "/checkpoints/runs/one/rank-1"]
    assert "ownerReferences" not in (namespace.get("pvc", kept) or {})["metadata"]


# with the operator away a job is let in, to be refused in its status
@pytest.mark.xdist_group("operator")
def test_workers_that_may_not_share_a_node_are_refused_a_volume_of_one_node(
    namespace: Namespace, operator_image: str
) -> None:
    said = namespace.refusal(writers("torn", operator_image, pod=apart("torn")))
    assert (
        "spec.checkpoint.accessModes: a ReadWriteOnce volume ties all 2 workers to one node, but spec.template.spec."
        "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0] keeps them apart; use ReadWriteMany"
    ) in said
    assert namespace.list("pods,services,pvc") == []
