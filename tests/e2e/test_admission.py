"""The webhook of the installed operator, and jobs that are not the operator's."""

import pytest
from dtj_api import names

from tests.e2e.jobs import gpt_job, script_job
from tests.e2e.namespace import Namespace

FAULTS = (
    "spec.training.optimiser: is not a known field; did you mean optimizer?",
    "spec.template.spec.containers[0].env[0].name: MASTER_ADDR is set by the operator; remove it",
    "spec.network.hostNetwork: opens the node to the job, which is not allowed here; remove it, or ask",
    'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0; correct it',
)


# with the operator away a job is let in, to be refused in its status
@pytest.mark.xdist_group("operator")
def test_all_faults_of_a_manifest_are_told_at_once_and_the_next_job_runs(
    namespace: Namespace, operator_image: str
) -> None:
    bad = gpt_job("bad", optimiser={"name": "adamw"})
    bad["spec"]["network"] = {"hostNetwork": True}
    bad["spec"]["template"]["spec"]["containers"] = [
        {"name": "trainer", "env": [{"name": "MASTER_ADDR", "value": "gpt"}], "resources": {"requests": {"cpu": "-1"}}}
    ]
    said = namespace.refusal(bad)
    assert 'admission webhook "distributedtrainingjobs.dtj.dev" denied the request: ' in said
    for sentence in FAULTS:
        assert sentence in said
    assert namespace.list("pods,services,pvc") == []

    namespace.apply(script_job("good", operator_image, "pass", workers=1))
    namespace.until_phase("good", "Succeeded")


def test_a_job_managed_by_another_controller_is_left_alone(namespace: Namespace, operator_image: str) -> None:
    theirs = script_job("theirs", operator_image, "pass", workers=1)
    theirs["spec"]["managedBy"] = "example.com/other"
    namespace.apply(theirs)
    namespace.apply(script_job("ours", operator_image, "pass", workers=1))
    namespace.until_phase("ours", "Succeeded")
    assert "status" not in namespace.job("theirs")
    assert namespace.list("pods,services,pvc,networkpolicies", f"{names.LABEL_JOB}=theirs") == []
